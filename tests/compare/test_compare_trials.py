"""Trials: the same results on any number of processes, and one clear error when something dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
from dataclasses import replace

import pytest

from proreus.compare.comparison import CompareRequest, compare
from proreus.compare.trials import TrialResult
from proreus.model.errors import InputError, UsageError, WorkError
from proreus.worlds.pods.scenarios import Generated, PodScenario, WorkloadSource
from proreus.worlds.pods.simulation.world import PodsOptions
from tests.compare.compare_cases import Failing, Killed, Tiny

Heard = tuple[int, int, str]
"""Of progress: how many runs are done, of how many, and which."""


def request(*sources: WorkloadSource, processes: int = 1, seeds: tuple[int, ...] = (0, 1)) -> CompareRequest:
    scenarios = tuple(PodScenario(source) for source in sources)
    return CompareRequest(scenarios, ("best_fit", "random"), seeds=seeds, processes=processes)


def untimed(result: TrialResult) -> tuple[str, str, int, dict[str, float]]:
    kept = {name: value for name, value in result.measures.items() if name != "decisions_per_s"}
    return result.scenario, result.policy, result.seed, kept


def assert_counted(heard: list[Heard], runs: int) -> None:
    """That progress counted up to the number of runs, and told of each."""
    counts = [done for done, _, _ in heard]
    assert counts == sorted(set(counts)) and counts[-1] == runs
    assert {total for _, total, _ in heard} == {runs}
    assert all(text.startswith(("tiny, seed", "small, seed")) for _, _, text in heard)


def test_results_do_not_depend_on_the_number_of_processes() -> None:
    wanted = request(Generated("small"), Tiny(), seeds=(4, 0, 1))
    alone = compare(wanted)
    heard: list[Heard] = []
    together = compare(replace(wanted, processes=2), lambda *progress: heard.append(progress))
    assert_counted(heard, 12)
    assert [untimed(trial_result) for trial_result in alone.results] == [
        untimed(trial_result) for trial_result in together.results
    ]
    assert [
        (trial_result.scenario, trial_result.seed, trial_result.policy) for trial_result in alone.results
    ] == [
        (scenario, seed, policy)
        for scenario in ("small", "tiny")
        for seed in (4, 0, 1)
        for policy in ("best_fit", "random")
    ]
    for result, other in zip(alone.results, together.results, strict=True):
        assert (result.picture is not None) == (other.picture is not None) == (result.seed == 4)
        if result.picture is not None and other.picture is not None:
            assert (result.picture.heat.cells == other.picture.heat.cells).all()
            assert (
                result.picture.recording.series["waiting"] == other.picture.recording.series["waiting"]
            ).all()


def test_every_policy_meets_the_same_workload() -> None:
    results = compare(request(Tiny())).results
    pictures = [result.picture for result in results if result.seed == 0]
    assert [picture.facts for picture in pictures if picture] == [("6 nodes", "40 pods")] * 2


def test_progress_counts_up_to_the_total() -> None:
    """With several processes: above, where there are some."""
    heard: list[Heard] = []
    compare(request(Tiny()), lambda *progress: heard.append(progress))
    assert_counted(heard, 4)


def test_a_killed_worker_is_reported() -> None:
    with pytest.raises(WorkError, match="a worker process died after"):
        compare(request(Killed(), Tiny(), processes=2))
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("processes", [1, 2])
def test_a_failing_task_says_where(processes: int) -> None:
    with pytest.raises(WorkError, match=r"^failing, seed 1: Stubborn: does not travel$"):
        compare(request(Failing("stubborn"), processes=processes))
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("processes", [1, 2])
def test_wrong_input_stays_wrong_input(processes: int) -> None:
    with pytest.raises(InputError, match=r"^pods\.csv:3: cpu: is not a number$") as caught:
        compare(request(Failing("input"), processes=processes))
    assert caught.value.line == 3


@pytest.mark.parametrize("processes", [1, 2])
def test_an_interrupt_ends_everything(processes: int) -> None:
    def interrupt(done: int, total: int, text: str) -> None:
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match=r"^interrupted after \d of 8 runs$"):
        compare(request(Tiny(), seeds=(0, 1, 2, 3), processes=processes), interrupt)
    assert not multiprocessing.active_children()


def test_workers_use_one_thread_and_the_parent_keeps_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    with pytest.raises(WorkError, match=r"threads 1$"):
        compare(request(Failing("threads"), processes=2))
    assert os.environ["OMP_NUM_THREADS"] == "2"
    assert "MKL_NUM_THREADS" not in os.environ


def test_a_wrong_policy_is_reported_before_anything_is_loaded() -> None:
    with pytest.raises(UsageError, match="did you mean 'best_fit'"):
        compare(CompareRequest((PodScenario(Killed()),), ("best_fitt",), processes=1))


def test_requests_that_mean_nothing() -> None:
    tiny = PodScenario(Tiny())
    with pytest.raises(UsageError, match="no policy to compare"):
        CompareRequest((tiny,), ())
    with pytest.raises(UsageError, match="the policy 'kube' is named twice"):
        CompareRequest((tiny,), ("kube", "fgd", "kube"))
    with pytest.raises(UsageError, match="the scenario 'tiny' is named twice"):
        CompareRequest((tiny, PodScenario(Tiny(), PodsOptions(drop_failures=True))), ("kube",))
    with pytest.raises(UsageError, match="the seed '3' is named twice"):
        CompareRequest((tiny,), ("kube",), seeds=(3, 3))
    with pytest.raises(UsageError, match="negative"):
        CompareRequest((tiny,), ("kube",), seeds=(-1,))
    with pytest.raises(UsageError, match="processes: 0"):
        CompareRequest((tiny,), ("kube",), processes=0)
