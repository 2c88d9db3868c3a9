"""Lanes on a Ray cluster: every actor plays a share of them, the learner gathers what they played.

A lane is what its number and the run's seed make it, and what the lanes played is put together in their
order: a run over Ray equals the run without it, bit for bit, where the machines are alike. The gradient stays
with the learner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from typing import Any

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F32
from proreus.model.errors import WorkError
from proreus.workers.processes import Workers, loss_in_words
from proreus.workers.ray import as_ours, ray_cluster
from proreus.workers.threads import Threads
from proreus.worlds.pods.policies.scorer import ScorerScratch, new_scorer_scratch
from proreus.worlds.pods.training.batched_lanes import BatchedPods
from proreus.worlds.pods.training.rollout import (
    EndedEpisodes,
    FusedLanes,
    Rollout,
    new_rollout,
    shared_out,
    sum_of,
)

Share = tuple[int, int]
Played = tuple[list[EndedEpisodes], list[F32], Arrays]
"""What ended in each lane; the rows of each, as many as there are; all else that a learner needs."""

# Filled by the lanes; what learners compute from it stays with them, and rows are sent by lane.
_PLAYED = ("start", "context", "preempts", "heads", "action", "log_chance", "value", "reward", "ended")


@contextmanager
def lanes_of(
    make: Callable[[Share], BatchedPods], count: int, steps: int, workers: Workers
) -> Iterator[FusedLanes]:
    """All lanes: here, or spread over the cluster that `workers` name; `make` makes any share of them."""
    if not workers.ray:
        yield make((0, 1))
        return
    with ray_cluster(workers) as cpus:
        yield RemoteLanes(make, count, steps, min(cpus, count))


class LaneHost:
    """Lives in an actor and plays its share of the lanes."""

    def prepare(self, make: Callable[[Share], BatchedPods], share: Share, steps: int) -> int:
        """Make the lanes; returns the nodes of the largest cluster.

        Not done when the actor is made: where it fails, Ray would say that the actor died, and not why.
        """
        self._batch = make(share)
        self._rollout = new_rollout(len(self._batch), steps, self._batch.nodes)
        self._work = new_scorer_scratch(self._batch.nodes)
        self._threads = Threads(1)
        return self._batch.nodes

    def play(self, params: F32) -> Played:
        """One rollout of every lane."""
        rollout = self._rollout
        # What comes through Ray is read-only; kernels are compiled for arrays that may be written.
        ended = self._batch.play_each(params.copy(), [rollout], [self._work], self._threads)
        rows = [rollout.rows[e, : rollout.start[e, -1]].copy() for e in range(len(self._batch))]
        return ended, rows, {name: getattr(rollout, name).copy() for name in _PLAYED}

    def capture(self) -> Arrays:
        """The lanes as they stand."""
        return self._batch.capture()

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take up what `capture` of equal lanes returned; others may be in it."""
        self._batch.restore(saved)


class RemoteLanes:
    """`rollout.FusedLanes` on actors, which are started here and end with the connection to the cluster."""

    def __init__(self, make: Callable[[Share], BatchedPods], count: int, steps: int, actors: int) -> None:
        import ray

        host = ray.remote(num_cpus=1, max_restarts=0)(LaneHost)
        self._count, self._shares = count, shared_out(count, actors)
        self._hosts = [host.remote() for _ in range(actors)]
        self.nodes: int = max(
            self._answers(
                [each.prepare.remote(make, (k, actors), steps) for k, each in enumerate(self._hosts)]
            )
        )

    def __len__(self) -> int:
        return self._count

    def play(
        self, params: F32, rollouts: Sequence[Rollout], works: Sequence[ScorerScratch], threads: Threads
    ) -> EndedEpisodes:
        """Let every actor play its lanes, and put together what they played, in the order of the lanes."""
        del works, threads  # the actors have their own
        rollout, ended = rollouts[0], []
        for share, (ends, rows, played) in zip(self._shares, self._each("play", params), strict=True):
            ended += ends
            for e, row in zip(share, rows, strict=True):
                rollout.rows[e, : len(row)] = row
            for name, values in played.items():
                getattr(rollout, name)[share.start : share.stop] = values
        return sum_of(ended)

    def capture(self) -> Arrays:
        """All lanes as they stand."""
        return {name: array for part in self._each("capture") for name, array in part.items()}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take up what `capture` of equal lanes returned, played here or elsewhere."""
        self._each("restore", saved)

    def _each(self, method: str, *arguments: Any) -> list[Any]:
        """Call every actor; its answers in order."""
        import ray

        sent = [ray.put(argument) for argument in arguments]
        return self._answers([getattr(host, method).remote(*sent) for host in self._hosts])

    def _answers(self, calls: list[Any]) -> list[Any]:
        import ray

        try:
            return list(ray.get(calls))
        except ray.exceptions.RayError as error:
            ours = as_ours(error)
            if isinstance(ours, BrokenExecutor):
                raise WorkError(loss_in_words(ours, "while the lanes played")) from error
            raise ours from error
