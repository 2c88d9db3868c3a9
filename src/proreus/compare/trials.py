"""Policies x scenarios x seeds -> results, on the cores of this machine or on a Ray cluster.

`comparison` calls `run_trials`. One task is one workload with all policies, so that it is loaded and compiled
once and every policy meets the same work: differences between policies are then paired by seed. Results come
back in the order of the request, whichever process was first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from proreus.contract.scenario import Scenario
from proreus.contract.world import Picture
from proreus.model.errors import ProreusError, WorkError
from proreus.policies.catalogue import AnyPolicy
from proreus.workers.processes import Workers, loss_in_words, pool_of
from proreus.worlds import Registered, register
from proreus.worlds import world as world_of

Progress = Callable[[int, int, str], None]
"""Hears (runs done, runs in all, what was done last)."""


@dataclass(frozen=True)
class TrialResult:
    """One policy on one workload."""

    scenario: str
    policy: str
    seed: int
    measures: dict[str, float]
    picture: Picture | None
    """Only for the first seed."""


@dataclass(frozen=True)
class TrialTask:
    """One workload and the policies that meet it."""

    scenario: Scenario
    seed: int
    policies: tuple[str, ...]
    options: Any
    """Of the world's policies."""
    world: str
    """The scenario's world by name: a scenario of one's own may need it before it can say so."""
    home: Registered
    """Where that world is."""
    with_pictures: bool = False
    own: Mapping[str, AnyPolicy] = field(default_factory=dict)
    """Policies that were given as objects."""

    @property
    def title(self) -> str:
        """For messages."""
        return f"{self.scenario.name}, seed {self.seed}"


def run_trials(
    tasks: Sequence[TrialTask], workers: Workers, progress: Progress | None = None
) -> tuple[TrialResult, ...]:
    """The results of all tasks, in order; one worker without Ray is this process."""
    tally = _Tally(sum(len(task.policies) for task in tasks), progress)
    try:
        if not workers.ray and min(workers.count, len(tasks)) <= 1:
            return tuple(result for task in tasks for result in run_task(task, tally.add_run))
        return _run_in_pool(tasks, workers, tally)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted after {tally.done} of {tally.total} runs") from None


def run_task(task: TrialTask, heard: Callable[[str], None] | None = None) -> list[TrialResult]:
    """Every policy of the task on its workload; `heard` is told after each."""
    register(task.world, task.home)  # this may be a worker that has not heard of it
    scenario, seed, world = task.scenario, task.seed, world_of(task.world)
    with _failures_named(task.title):
        work = scenario.load(seed)
    results = []
    for name in task.policies:
        with _failures_named(f"{task.title}, policy {name}"):
            policy = task.own.get(name) or world.policies(scenario).make(name, task.options, seed)
            played = world.play(scenario, work, policy, seed, picture=task.with_pictures)
        results.append(TrialResult(scenario.name, name, seed, played.measures, played.picture))
        if heard is not None:
            heard(f"{task.title}: {name}")
    return results


class _Tally:
    """Counts runs and tells whoever wants to know."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self.done, self.total, self._progress = 0, total, progress

    def add_run(self, text: str) -> None:
        self.add(1, text)

    def add(self, runs: int, text: str) -> None:
        self.done += runs
        if self._progress is not None:
            self._progress(self.done, self.total, text)


def _run_in_pool(tasks: Sequence[TrialTask], workers: Workers, tally: _Tally) -> tuple[TrialResult, ...]:
    world_of(tasks[0].world).warm_up()  # compiled here once, found in the cache by every worker
    results: dict[Future[list[TrialResult]], list[TrialResult]] = {}
    try:
        with pool_of(workers, len(tasks)) as pool:
            futures = [pool.submit(run_task, task) for task in tasks]
            task_of = dict(zip(futures, tasks, strict=True))
            for future in as_completed(futures):
                results[future] = future.result()
                tally.add(len(task_of[future].policies), task_of[future].title)
    except BrokenExecutor as error:
        raise WorkError(loss_in_words(error, f"after {tally.done} of {tally.total} runs")) from error
    return tuple(result for future in futures for result in results[future])


@contextmanager
def _failures_named(where: str) -> Iterator[None]:
    """A failure of the work says where it happened; wrong input and usage speak for themselves.

    This is the one place that catches whatever comes: a policy or a reader may raise anything, and some
    exceptions cannot even travel between processes.
    """
    try:
        yield
    except WorkError as error:
        message = str(error)
        whose = where.rpartition(", ")[2]
        # What a policy of one's own did wrong names the policy already.
        short = where if not message.startswith(f"{whose}:") else where.rpartition(", ")[0]
        raise WorkError(f"{short}: {message}") from error
    except ProreusError:
        raise
    except Exception as error:
        raise WorkError(f"{where}: {type(error).__name__}: {error}") from error
