"""Online learning: held-out decisions are never learned from, versions appear, a dead worker comes back."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.log.folder import LogFolder
from proreus.model.errors import UsageError, WorkError
from proreus.model.experience import Experience
from proreus.serving.models.version_store import ModelStore
from proreus.serving.online.learner import OnlineLearner, OnlineSettings
from proreus.serving.online.off_policy_evaluation import GateSettings
from proreus.serving.online.worker import Job, Worker, cut, find_improve
from proreus.worlds.pods.policies.vector.model import Candidate, VectorScorer, Weights
from proreus.worlds.pods.policies.vector.scorer import part
from proreus.worlds.pods.training.vector.recorded_ppo import improve
from tests.serving.serving_cases import a_store, an_experience, experience_log, places, played, true_worth

LEARN = {"learning_rate": 3e-3, "target_kl": 0.05, "threads": 1}
IMPROVE = "proreus.worlds.pods.training.vector.recorded_ppo:improve"


def a_job(folder: Path, **changes: Any) -> Job:
    given = Job(
        store=folder / "models",
        name="vector",
        experience=folder / "log",
        logs=(LogFolder(folder / "log"),),
        improve=IMPROVE,
        batch_size=64,
        hold_out_every=4,
        block=16,
        replay=2048,
        keep=100,
        poll_seconds=0.05,
        niceness=0,
        gate=GateSettings(),
        learner=LEARN,
    )
    return replace(given, **changes)


def sabotage(weights: Weights, experiences: Sequence[Experience], settings: Mapping[str, Any]) -> Candidate:
    """A learner that makes the model prefer what it avoided."""
    turned = weights.tensors["parameters"].copy()
    part(turned, "place")[:] *= -1.0
    return Candidate(Weights(weights.kind, {"parameters": turned}), {})


def broken(weights: Weights, experiences: Sequence[Experience], settings: Mapping[str, Any]) -> Candidate:
    """A learner that cannot learn."""
    raise WorkError("no idea what to do with this")


@settings(max_examples=100)
@given(
    number=st.integers(0, 100), size=st.integers(1, 200), block=st.integers(1, 40), every=st.integers(2, 9)
)
def test_every_decision_is_either_learned_from_or_held_out(
    number: int, size: int, block: int, every: int
) -> None:
    record = replace(an_experience(0, size), rewards=np.arange(size, dtype=np.float64))
    train, held = cut(number, record, block, every)
    rewards = [stretch.rewards for stretch in (*train, *held)]
    assert sorted(np.concatenate(rewards).tolist()) == list(range(size))
    assert all((np.diff(stretch) == 1.0).all() for stretch in rewards)  # consecutive
    if size >= 2 * every * block:
        assert 0.4 / every <= sum(map(len, held)) / size <= 1.6 / every


def test_of_many_small_records_one_in_k_is_held_out() -> None:
    held = [number for number in range(40) if cut(number, an_experience(number, 1), 16, 4)[1]]
    assert held == list(range(3, 40, 4))


def test_a_round_publishes_what_is_better_and_learns_nothing_from_the_held_out(tmp_path: Path) -> None:
    store, log = a_store(tmp_path / "models"), experience_log(tmp_path / "log")
    seen: list[Experience] = []

    def watched(
        weights: Weights, experiences: Sequence[Experience], settings: Mapping[str, Any]
    ) -> Candidate:
        seen.extend(experiences)
        return improve(weights, experiences, settings)

    worker = Worker(a_job(tmp_path), watched)
    assert not worker.take() and not worker.ready()
    before = true_worth(store.load("vector"))
    for k in range(12):
        log.append(played(store.load("vector"), k, 512, store.current("vector")))
        assert worker.take() and worker.ready() and worker.queue == 384
        worker.learn()
    learned = {state.tobytes() for stretch in seen for state in stretch.states}
    held = {state.tobytes() for _, stretch in worker.held for state in stretch.states}
    assert learned and held and not learned & held
    records = store.versions("vector")
    assert len(records) == 13 and sum(record.state == "rejected" for record in records) <= 3
    assert true_worth(store.load("vector")) > before + 1.0
    assert records[-1].scores["replay decisions"] > 0 and records[1].parent == 1
    log.close()


def test_a_sabotaged_candidate_is_kept_marked_and_does_not_go_live(tmp_path: Path) -> None:
    store, log = a_store(tmp_path / "models"), experience_log(tmp_path / "log")
    worker = Worker(a_job(tmp_path), improve)
    for k in range(5):
        log.append(played(store.load("vector"), k, 512))
        worker.take()
        worker.learn()
    live = store.current("vector")
    bad = Worker(a_job(tmp_path), sabotage)  # goes on where the other stopped, its replay included
    log.append(played(store.load("vector"), 99, 512))
    bad.take()
    assert bad.queue == 384
    last = bad.learn()
    assert not last["accepted"] and last["reason"].startswith("worse")
    assert store.current("vector") == live
    assert store.record("vector", last["version"]).state == "rejected"
    log.close()


def test_a_worker_that_starts_again_goes_on_where_it_was(tmp_path: Path) -> None:
    store, log = a_store(tmp_path / "models"), experience_log(tmp_path / "log")
    worker = Worker(a_job(tmp_path), improve)
    log.append(played(store.load("vector"), 0, 64))
    worker.take()
    assert worker.ready() and worker.queue == 48
    worker.learn()
    assert not worker.ready() and worker.queue == 0
    log.append(played(store.load("vector"), 1, 16))
    again = Worker(a_job(tmp_path), improve)
    again.take()
    assert again.queue == 16 and not again.ready()  # the second record alone
    assert sum(len(stretch) for _, stretch in again.held) == 16  # and the replay of the first
    (tmp_path / "log" / "learner.json").write_text("{")
    assert Worker(a_job(tmp_path), improve).take()
    log.close()


def test_greedy_decisions_alone_start_no_round_and_do_not_pile_up(tmp_path: Path) -> None:
    store, log = a_store(tmp_path / "models"), experience_log(tmp_path / "log")
    worker = Worker(a_job(tmp_path, batch_size=4), improve)
    greedy = replace(played(store.load("vector"), 0, 96), greedy=np.ones(96, dtype=np.bool_))
    for k in range(8):
        log.append(greedy)
        worker.take()
        assert not worker.ready() and worker.unusable == 96 * (k + 1)
    assert worker.queue <= 64 * 4
    log.append(played(store.load("vector"), 1, 4))
    worker.take()
    assert worker.ready()
    log.close()


def test_old_versions_are_let_go(tmp_path: Path) -> None:
    store, log = a_store(tmp_path / "models"), experience_log(tmp_path / "log")
    worker = Worker(a_job(tmp_path, keep=2), improve)
    for k in range(6):
        log.append(played(store.load("vector"), k, 128))
        worker.take()
        worker.learn()
    there = [record.version for record in store.versions("vector")]
    assert there[-1] >= 5 and 1 not in there and len(there) <= 4 and store.current("vector") in there
    log.close()


def test_somebody_elses_choice_of_version_stands(tmp_path: Path) -> None:
    store, log = a_store(tmp_path / "models"), experience_log(tmp_path / "log")

    def meanwhile(
        weights: Weights, experiences: Sequence[Experience], settings: Mapping[str, Any]
    ) -> Candidate:
        promoted = store.add("vector", store.checkpoint("vector", 1), "an operator's")
        store.promote("vector", promoted)
        return improve(weights, experiences, settings)

    worker = Worker(a_job(tmp_path), meanwhile)
    log.append(played(store.load("vector"), 0, 512))
    worker.take()
    last = worker.learn()
    assert last["accepted"] and store.current("vector") == 2 != last["version"]
    log.close()


def test_a_learner_that_does_not_exist_is_bad_usage() -> None:
    for name in (
        "proreus.nothing:improve",
        "proreus.worlds.pods.training.vector.recorded_ppo:improv",
        "no colon",
    ):
        with pytest.raises(UsageError, match="cannot be loaded"):
            find_improve(name)


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


def test_the_process_learns_is_restarted_when_killed_and_stops_when_told(tmp_path: Path) -> None:
    store, log = a_store(tmp_path / "models"), experience_log(tmp_path / "log")
    live: list[int] = []
    learner = OnlineLearner(
        places(tmp_path),
        IMPROVE,
        OnlineSettings(poll_seconds=0.05, niceness=0, learner=LEARN),
        live.append,
    )
    learner.start()
    log.append(played(store.load("vector"), 0, 512))
    wait_for(lambda: learner.status().rounds >= 1)
    first = learner.status()
    assert first.accepted + first.rejected == 1 and first.last["version"] == 2
    process = learner._process
    assert process is not None and process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: learner.status().restarts == 1)
    log.append(played(store.load("vector"), 1, 512))
    wait_for(lambda: learner.status().rounds >= 2)
    store.promote("vector", 1)  # an operator, by the command line
    wait_for(lambda: live[-1:] == [1])
    learner.stop()
    status = learner.status()
    assert status.state == "stopped" and status.queue == 0 and status.lag_seconds == 0.0
    assert not process.is_alive()
    log.close()


def test_a_learner_that_fails_is_said_and_the_service_goes_on(tmp_path: Path) -> None:
    store, log = a_store(tmp_path / "models"), experience_log(tmp_path / "log")
    learner = OnlineLearner(
        places(tmp_path),
        "tests.serving.test_online:broken",
        OnlineSettings(poll_seconds=0.05, niceness=0),
    )
    learner.start()
    log.append(played(store.load("vector"), 0, 512))
    wait_for(lambda: learner.status().failure != "")
    learner.stop()
    assert "no idea what to do" in learner.status().failure
    assert ModelStore(tmp_path / "models").current("vector") == 1
    assert isinstance(store.load("vector"), VectorScorer)
    log.close()
