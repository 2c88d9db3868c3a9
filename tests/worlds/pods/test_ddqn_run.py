"""DDQN over lanes, resumed bit for bit with its memory, its checkpoint a policy like any other."""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.learning.learning_cases import small_world

pytest.importorskip("torch", reason="needs the extra learn")

import torch
from safetensors.numpy import load, save

from proreus.learning.ddqn import DDQNConfig
from proreus.learning.gradient_run import STATE, GradientRun, UpdateReport
from proreus.learning.learner_state import first_network, weights_of
from proreus.learning.run import Task, descend
from proreus.learning.run_folder import read_journal
from proreus.model.decision import Delay, Place, Preempt, from_action
from proreus.model.errors import InputError, UsageError, WorkError
from proreus.model.node import Node
from proreus.model.pod import Pod, PodSpec
from proreus.model.resources import GIB, Resources
from proreus.model.workload import Workload
from proreus.policies.checkpoint import load_checkpoint
from proreus.policies.networks.q_network import QNetwork, best_legal, network_of
from proreus.policies.protocol import Explains
from proreus.workers.processes import Workers
from proreus.worlds.pods.encoding.context import CONTEXT_FEATURES
from proreus.worlds.pods.encoding.pair import PAIR_FEATURES, VERSION
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies import checkpoint_tensors
from proreus.worlds.pods.policies.catalogue import PolicyOptions, make_policy
from proreus.worlds.pods.policies.q_policy import BiddingQPolicy
from proreus.worlds.pods.scenarios import Generated, PodScenario
from proreus.worlds.pods.simulation.world import PodsOptions, PodsWorld
from proreus.worlds.pods.state.compile import Compiled, compile_workload
from proreus.worlds.pods.training.batched_lanes import BatchedPods, BatchOptions, EpisodeLane
from proreus.worlds.pods.training.torch_learners import DDQN, DDQNLessons, rule_values

_SIZES = (len(PAIR_FEATURES), len(CONTEXT_FEATURES))
SCENARIO = PodScenario(Generated("gpu", 5), PodsOptions(drop_failures=True))
CONFIG = DDQNConfig(steps=600, seed=3, hidden=16, warm_up=64, capacity=250, target_every=20, report_every=100)
LESSONS = DDQNLessons(horizon=30, train_seeds=2, validation_seeds=1, evaluate_every=2)


def train(
    folder: Path,
    *,
    resume: bool = False,
    stop_after: int = 10**9,
    config: DDQNConfig = CONFIG,
    lessons: DDQNLessons = LESSONS,
) -> list[UpdateReport]:
    """The reports of a run, stopped after so many."""
    reports: list[UpdateReport] = []
    task = Task((SCENARIO,), (config, lessons), Workers(1), folder, resume)
    run = GradientRun(folder, DDQN.identity(task.scenarios, task.configs), resume=resume)

    def stopped() -> bool:
        return len(reports) + 1 >= stop_after

    with closing(run):
        for report in descend(DDQN, task, run, stopped):
            reports.append(report)
    return reports


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    reports = train(folder)
    assert [report.update.figures["steps"] for report in reports] == [100, 200, 300, 400, 500, 600]
    assert [report.validation is not None for report in reports] == [False, True] * 3
    return folder


def test_a_resumed_run_is_the_unbroken_one_bit_for_bit(whole: Path, tmp_path: Path) -> None:
    """Interrupted where no judgement was due, in the middle of an episode and with its memory full."""
    broken = tmp_path / "broken"
    assert len(train(broken, stop_after=3)) == 3
    assert [report.update.number for report in train(broken, resume=True)] == [4, 5, 6]
    for file in (STATE, "last/weights.safetensors", "best/weights.safetensors"):
        assert (whole / file).read_bytes() == (broken / file).read_bytes(), file
    timed = ("seconds", "steps_per_second")
    one, other = (
        [{name: value for name, value in entry.items() if name not in timed} for entry in read_journal(run)]
        for run in (whole, broken)
    )
    assert str(one) == str(other)  # NaN is not equal to itself


def test_a_run_that_gets_no_better_ends_and_stays_ended(tmp_path: Path) -> None:
    idle = replace(CONFIG, learning_rate=1e-12)
    lessons = replace(LESSONS, evaluate_every=1, patience=2)
    reports = train(tmp_path / "run", config=idle, lessons=lessons)
    assert [report.is_best for report in reports] == [False, False], "of six judgements that were possible"
    assert train(tmp_path / "run", config=idle, lessons=lessons, resume=True) == []
    with pytest.raises(UsageError, match="patience: -1 is negative"):
        DDQNLessons(patience=-1)


@pytest.mark.parametrize(("rule", "gpus"), [("fgd", True), ("best_fit", False)])
def test_it_starts_as_the_strongest_rule(rule: str, gpus: bool) -> None:
    """Nearly: best fit looks at memory, too, and FGD has its own order of the GPUs that are shared."""
    drawn = weights_of(first_network(QNetwork, CONFIG, _SIZES))
    start = BiddingQPolicy("start", network_of(rule_values(drawn, gpus=gpus), _SIZES))
    compiled = SCENARIO.load(5) if gpus else small_world(nodes=6, pods=40)
    measured, wanted = (
        simulate(compiled, policy, SCENARIO.options).measures for policy in (start, make_policy(rule))
    )
    measure = "gpu_allocation_peak" if gpus else "jct_mean"
    assert measured[measure] == pytest.approx(wanted[measure], rel=0.01 if gpus else 0.05)


def test_the_best_checkpoint_plays_and_explains_like_any_policy(whole: Path) -> None:
    card = load_checkpoint(whole / "best", VERSION).card
    assert (card.kind, card.algorithm, card.trained_on) == ("q", "ddqn", ("gpu@5",))
    policy = make_policy(str(whole))
    assert isinstance(policy, Explains)
    compiled = compile_workload(SCENARIO.source.load(7))
    seen = []
    outcome = simulate(compiled, policy, SCENARIO.options, inspect=lambda o: seen.append(policy.explain(o)))
    again = simulate(compiled, make_policy(str(whole / "best")), SCENARIO.options)
    assert repr(outcome.log) == repr(again.log)  # NaN is not equal to itself
    assert len(seen) == outcome.measures["decisions"]
    assert all(bool(verdict.scores) != bool(verdict.refused_by) for verdict in seen[0].verdicts)
    # Its journal holds the gain that its best checkpoint has on the validation seed.
    judged = max(entry["validation"]["gpu@5"] for entry in read_journal(whole) if entry["validation"])
    held_out = compile_workload(SCENARIO.source.load(2000))
    ours, rule = (simulate(held_out, make_policy(name), SCENARIO.options) for name in (str(whole), "fgd"))
    measure = "gpu_allocation_peak"
    assert judged == pytest.approx(ours.measures[measure] - rule.measures[measure])


def crowded_world() -> Compiled:
    """Two in three pods fill the nodes; every third is more important and finds no room."""
    nodes = tuple(Node(f"n{i}", Resources(cpu=4000 + 500 * i, memory=64 * GIB, pods=50)) for i in range(4))
    pods = tuple(
        Pod(
            f"p{i}",
            PodSpec(Resources(cpu=900 + 37 * (i % 11), memory=GIB), priority=100 if i % 3 == 2 else 0),
            arrival=float(i),
            duration=40.0,
        )
        for i in range(90)
    )
    return compile_workload(Workload("crowded", nodes, pods))


def test_what_a_policy_chooses_is_what_the_lanes_would_have_chosen() -> None:
    """One encoding: over whole episodes with priorities and evictions, the policy and a learner agree."""
    compiled = crowded_world()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        network = QNetwork(16, len(PAIR_FEATURES), len(CONTEXT_FEATURES))
    policy, places, evictions = BiddingQPolicy("q", network), 0, 0
    world = PodsWorld(compiled)
    batch = BatchedPods([compiled], 1, options=BatchOptions(redraw=False))
    lane = EpisodeLane(batch)
    seen = lane.reset(0)
    ended = False
    while not ended and (observation := world.next_decision()) is not None:
        decision = policy.decide(observation)
        legal = observation.action_mask()
        nodes = len(compiled.workload.nodes)
        choices = legal[:nodes].sum() or legal[nodes : 2 * nodes].sum()
        if choices > 1:
            rows, context, mask = (torch.from_numpy(array) for array in seen)
            with torch.inference_mode():
                action = int(best_legal(network(rows, context, mask), mask))
            wanted = from_action(action, nodes)
            assert type(wanted) is type(decision)
            assert isinstance(decision, Place | Preempt) and isinstance(wanted, Place | Preempt)
            assert wanted.node == decision.node
            places += isinstance(decision, Place)
            evictions += isinstance(decision, Preempt)
            steps = lane.step(np.array([action]))
            seen, ended = steps.choices, bool(steps.ended[0])
        world.apply(decision)
    assert places > 10 and evictions > 10, (places, evictions)


def test_where_it_may_not_evict_it_waits(whole: Path) -> None:
    workload = small_world(nodes=2, pods=60).workload
    crowd = tuple(replace(pod, arrival=0.0) for pod in workload.pods)
    compiled = compile_workload(replace(workload, pods=crowd))
    decided = []
    patient = make_policy(str(whole), PolicyOptions(preempt=False))
    simulate(compiled, patient, inspect=lambda o: decided.append(patient.decide(o)))
    assert any(isinstance(decision, Delay) for decision in decided)
    assert not any(isinstance(decision, Preempt) for decision in decided)


def test_episodes_are_what_their_seeds_make_them() -> None:
    def episode(lane: EpisodeLane, seed: int) -> list[Any]:
        seen = lane.reset(seed)
        trajectory: list[Any] = [seen.context.tobytes()]
        ended = False
        while not ended:
            steps = lane.step(np.flatnonzero(seen.legal[0])[-1:])
            seen, ended = steps.choices, bool(steps.ended[0])
            trajectory.append((seen.rows.tobytes(), float(steps.rewards[0])))
        return trajectory[:-1]  # what is seen after the end is another episode's

    def batch() -> BatchedPods:
        return BatchedPods([small_world(3), small_world(6)], 2, horizon=20, reward="completion")

    lane = EpisodeLane(batch())
    first, second, again = episode(lane, 4), episode(lane, 7), episode(lane, 4)
    assert lane.reset(4).rows.shape[1] == 6
    assert first == again != second
    assert episode(EpisodeLane(batch()), 7) == second


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors.pop("bid.weight"), "bid.weight: needs finite numbers"),
        (lambda tensors: tensors["value.bias"].__setitem__(0, math.nan), "value.bias: needs finite numbers"),
        (lambda tensors: tensors.pop("deeper.weight"), "needs finite numbers of shape"),
    ],
)
def test_a_wrong_checkpoint_is_refused(
    change: Callable[[dict[str, Any]], None], message: str, whole: Path
) -> None:
    checkpoint = load_checkpoint(whole / "best", VERSION)
    tensors = {name: tensor.copy() for name, tensor in checkpoint.tensors.items()}
    change(tensors)
    with pytest.raises(InputError, match=message):
        checkpoint_tensors.q_policy("q", replace(checkpoint, tensors=tensors), whole, preempts=True)


def test_without_torch_one_line_says_what_is_missing(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs the extra `learn`"):
        make_policy(str(whole))


def test_a_loss_that_is_no_number_loses_nothing(tmp_path: Path) -> None:
    """Learning rates beyond reason: what was judged before is still there, and so is the saved state."""
    run = tmp_path / "run"
    wild = replace(CONFIG, learning_rate=1e38, warm_up=220)
    with pytest.raises(WorkError, match="ddqn: the loss is"):
        train(run, config=wild)
    assert make_policy(str(run)).name
    assert [entry["update"] for entry in read_journal(run)] == [0, 1, 2]
    with pytest.raises(WorkError, match="ddqn: the loss is"):
        train(run, resume=True, config=wild)


def test_a_memory_that_would_not_fit_is_refused_and_leaves_no_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"takes \d+ GiB: at most [\d,]+ fit"):
        train(tmp_path / "run", config=replace(CONFIG, capacity=10**8))
    assert not (tmp_path / "run").exists()


def test_a_device_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="ddqn: device 'abacus'"):
        train(tmp_path / "run", config=replace(CONFIG, device="abacus"))
    assert not (tmp_path / "run").exists()


def test_a_state_without_its_values_is_reported(whole: Path, tmp_path: Path) -> None:
    train(tmp_path / "run", stop_after=1)
    state = tmp_path / "run" / STATE
    state.write_bytes(save({**load(state.read_bytes()), "values": np.frombuffer(b"{", dtype=np.uint8)}))
    with pytest.raises(InputError, match="cannot be resumed"):
        train(tmp_path / "run", resume=True)
    assert json.loads((whole / "settings.json").read_text())["scenarios"][0]["options"]["drop_failures"]
