"""QMIX, PPO and DQN over servers, resumed bit for bit, judged on held-out starts."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra learn")

from proreus.learning.gradient_run import STATE, GradientRun, UpdateReport
from proreus.learning.learner import GradientLearner
from proreus.learning.qmix import QMIXConfig
from proreus.learning.run import Task, descend
from proreus.learning.run_folder import read_journal
from proreus.model.errors import InputError, UsageError, WorkError
from proreus.policies.checkpoint import load_checkpoint
from proreus.workers.processes import Workers
from proreus.worlds.vms.encoding.rows import VERSION
from proreus.worlds.vms.policies.catalogue import rule_policy
from proreus.worlds.vms.scenarios import VmScenario
from proreus.worlds.vms.simulation.world import SCENARIOS, with_servers
from proreus.worlds.vms.training import evaluation
from proreus.worlds.vms.training.evaluation import VmsLaneLessons, VmsLessons, VmsSchool
from proreus.worlds.vms.training.lanes import BatchedVms, BatchSettings, VmRowLanes
from proreus.worlds.vms.training.torch_learners import DDQN, PPO, QMIX, VmsDDQNConfig, VmsPPOConfig
from proreus.worlds.vms.training.training_trace import TrainingTrace

TRACE = TrainingTrace(machines=3_000, seed=4)
SCENARIO = VmScenario("waiting@2", with_servers(SCENARIOS["waiting"], 2))
LESSONS = VmsLaneLessons(lanes=4, validation_starts=6, evaluate_every=2, limit=120)
SCHOOL = VmsSchool(TRACE, SCENARIO.options, LESSONS)
VMS_LESSONS = tuple(item.name for item in fields(VmsLessons))
LEARNERS: dict[type, GradientLearner] = {QMIXConfig: QMIX, VmsPPOConfig: PPO, VmsDDQNConfig: DDQN}
CONFIGS: dict[str, Any] = {
    # The memory is full and forgets before the end; the third update is in the middle of runs.
    "qmix": QMIXConfig(steps=192, chunk=8, n_step=4, updates=2, batch_size=16, capacity=80, hidden=8, seed=3),
    "ppo": VmsPPOConfig(steps=192, rollout_steps=8, epochs=2, minibatches=2, hidden=8, seed=3),
    "ppo on the device": VmsPPOConfig(
        steps=192, rollout_steps=8, epochs=2, minibatches=2, hidden=8, seed=3, worlds="device"
    ),
    "ddqn": VmsDDQNConfig(
        steps=180, report_every=30, hidden=8, warm_up=20, batch_size=16, capacity=80, target_every=9, seed=3
    ),
}


@pytest.fixture(autouse=True)
def small_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is trained on here is short."""
    monkeypatch.setattr(evaluation, "training_trace", lambda scenario: TRACE)
    evaluation.school_of.cache_clear()


def train(
    folder: Path,
    config: Any,
    *,
    resume: bool = False,
    stop_after: int = 10**9,
    lessons: VmsLessons = LESSONS,
) -> list[UpdateReport]:
    """The reports of a run, stopped after so many."""
    reports: list[UpdateReport] = []
    learner = LEARNERS[type(config)]
    if learner is DDQN:
        lessons = VmsLessons(**{name: getattr(lessons, name) for name in VMS_LESSONS})
    configs = (config, lessons)
    run = GradientRun(folder, learner.identity([SCENARIO], configs), resume=resume)
    task = Task([SCENARIO], configs, Workers(1), folder, resume)

    def stopped() -> bool:
        return len(reports) + 1 >= stop_after

    with closing(run):
        for report in descend(learner, task, run, stopped):
            reports.append(report)
    return reports


@pytest.mark.parametrize("algorithm", sorted(CONFIGS))
def test_a_resumed_run_is_the_unbroken_one_bit_for_bit(algorithm: str, tmp_path: Path) -> None:
    whole, broken, config = tmp_path / "whole", tmp_path / "broken", CONFIGS[algorithm]
    reports = train(whole, config)
    assert [report.update.number for report in reports] == [1, 2, 3, 4, 5, 6]
    assert [report.validation is not None for report in reports] == [False, True] * 3
    assert len(train(broken, config, stop_after=3)) == 3
    assert [report.update.number for report in train(broken, config, resume=True)] == [4, 5, 6]
    for file in (STATE, "last/weights.safetensors", "best/weights.safetensors"):
        assert (whole / file).read_bytes() == (broken / file).read_bytes(), file
    timed = ("seconds", "steps_per_second")
    one, other = (
        [{name: value for name, value in entry.items() if name not in timed} for entry in read_journal(run)]
        for run in (whole, broken)
    )
    assert str(one) == str(other)  # NaN is not equal to itself
    card = load_checkpoint(whole / "best", VERSION).card
    name = LEARNERS[type(CONFIGS[algorithm])].algorithm
    assert (card.world, card.algorithm, card.trained_on) == ("vms", name, ("waiting@2",))
    # The journal holds the gain that the best checkpoint has where it plays as a policy.
    judged = max(entry["validation"]["waiting@2"] for entry in read_journal(whole) if entry["validation"])
    assert judged == pytest.approx(SCHOOL.gain(rule_policy(str(whole))))
    assert list(card.scores.values()) == [pytest.approx(judged)]


@pytest.mark.parametrize("full", ["wait", "end", "reject"])
def test_the_best_rule_gains_nothing_over_itself(full: str) -> None:
    name = {"wait": "waiting", "end": "recovering", "reject": "rejecting"}[full]
    lessons = replace(LESSONS, limit=0, validation_starts=20)
    school = replace(SCHOOL, options=with_servers(SCENARIOS[name], 2), lessons=lessons)
    gains = {rule: school.gain(rule_policy(rule)) for rule in ("first_fit", "best_fit", "balance_fit")}
    assert max(gains.values()) == 0.0 and min(gains.values()) < 0.0, gains


def test_nobody_trains_where_it_is_judged() -> None:
    trained, judged = TRACE.part("train"), TRACE.part("valid")
    assert trained[1] <= judged[0]
    assert (SCHOOL._held_out.starts >= judged[0]).all() and (SCHOOL._held_out.starts < judged[1]).all()
    starts = SCHOOL.lanes(8).batch.settings
    assert (starts.first, starts.last) == trained


def test_the_end_for_want_of_room_is_what_costs() -> None:
    """And with a discount that ranks runs as a reward for every placement does."""
    options, discount, cost = with_servers(SCENARIOS["recovering"], 2), 0.9, 10.0
    work = TRACE.work(options.double)
    for limit in (20, 5_000):
        lanes = VmRowLanes(BatchedVms(work, options, 3, BatchSettings(0, 900, limit)), cost)
        seen, returns, steps = lanes.reset(1), np.zeros((2, 3)), np.zeros(3)
        ended = np.zeros(3, dtype=np.bool_)
        while not ended.any():
            seen, rewards, ended, own_rewards, _ = lanes.step(np.argmax(seen.legal, axis=1))
            assert (own_rewards == 1.0).all()
            assert (rewards[~ended] == 0.0).all()
            returns += discount**steps * np.stack([own_rewards, rewards])
            steps += 1
        if limit == 20:  # ended as long as a run may be, not for want of room
            assert (rewards == 0.0).all() and steps[0] == 20
        else:
            assert (rewards[ended] == -cost).all()
            own, paid = returns[:, ended]
            np.testing.assert_allclose(own, (1.0 + discount * paid / cost) / (1.0 - discount))


def test_a_captured_batch_goes_on_as_if_nothing_had_happened() -> None:
    options = with_servers(SCENARIOS["waiting"], 2)
    work = TRACE.work(options.double)

    def played(batch: BatchedVms, steps: int) -> list[bytes]:
        frames = []
        for _ in range(steps):
            shown = batch._steps
            legal = [int(np.flatnonzero(avail)[-1]) for avail in shown.avail]
            after = batch.step(np.array(legal))
            frames.append(b"".join(array.tobytes() for array in after))
        return frames

    first = BatchedVms(work, options, 3, BatchSettings(0, 900, 60, seed=5))
    first.reset()
    played(first, 150)
    saved = first.capture()
    wanted = played(first, 150)
    second = BatchedVms(work, options, 3, BatchSettings(0, 900, 60, seed=9))
    second.reset()
    played(second, 40)
    second.restore(saved)
    assert played(second, 150) == wanted
    with pytest.raises(InputError, match="do not fit"):
        BatchedVms(work, options, 2, BatchSettings(0, 900, 60)).restore(saved)


@pytest.mark.parametrize("algorithm", sorted(CONFIGS))
def test_numbers_that_are_none_end_the_run_in_words(algorithm: str, tmp_path: Path) -> None:
    """Whichever comes first: the next loss, or the judgement of weights that overflowed."""
    wild = replace(CONFIGS[algorithm], learning_rate=1e30)
    with pytest.raises(WorkError, match=f"{LEARNERS[type(wild)].algorithm}: .*a lower learning rate"):
        train(tmp_path / "run", wild)


def test_settings_that_cannot_be_are_refused_and_leave_no_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(UsageError, match="qmix: device 'abacus'"):
        train(run, replace(CONFIGS["qmix"], device="abacus"))
    with pytest.raises(UsageError, match=r"qmix: remembering .* on 2 servers takes \d+ GiB"):
        train(run, QMIXConfig(capacity=10**9))
    with pytest.raises(UsageError, match="capacity 20 is below one chunk of 32"):
        train(run, QMIXConfig(steps=192, chunk=8, n_step=4, batch_size=16, capacity=20))
    assert not run.exists()


def test_a_state_that_is_none_is_reported(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(run, CONFIGS["qmix"], stop_after=2)
    settings = json.loads((run / "settings.json").read_text())
    settings["config"]["lanes"] = 3
    (run / "settings.json").write_text(json.dumps(settings))
    with pytest.raises(InputError, match="do not fit"):
        train(run, CONFIGS["qmix"], resume=True, lessons=replace(LESSONS, lanes=3))
