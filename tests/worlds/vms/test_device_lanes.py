"""Lanes of virtual machines in torch = lanes of kernels: the same runs, choice by choice, on any device.

Here they run on torch's CPU device; the very same operations run on a GPU.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from proreus.learning.ppo import PPOConfig
from proreus.learning.tensor_ppo import TensorPPOLearner
from proreus.model.errors import IllegalDecision, UsageError
from proreus.worlds.vms.datasets.generator import generate_vms
from proreus.worlds.vms.model import ServerShape, VmTrace, events_of
from proreus.worlds.vms.simulation.columns import VmWork
from proreus.worlds.vms.simulation.world import SCENARIOS, VmsOptions, compile_trace
from proreus.worlds.vms.training.device.lanes import VmDeviceLanes
from proreus.worlds.vms.training.device.step import step
from proreus.worlds.vms.training.lanes import BatchedVms, BatchSettings, VmRowLanes
from tests.tensor_laws import Elsewhere, hollow

LANES = 6
# The mean of a context over all servers may be rounded otherwise; all else is the same to the last bit.
BOUND = 2e-6
_SMALL = (ServerShape(2, 12, 28),)
_PART = BatchSettings(first=20, last=400, limit=150, seed=3)


def crowded(options: VmsOptions, seed: int = 1) -> VmWork:
    """More machines than fit, so that runs end, wait and turn away."""
    return compile_trace(generate_vms(700, seed, density=4.0), options.double)


def pair(
    options: VmsOptions, settings: BatchSettings = _PART, ending_cost: float = 0.0, seed: int = 1
) -> tuple[VmRowLanes, VmDeviceLanes]:
    batch = BatchedVms(crowded(options, seed), options, LANES, settings)
    host = VmRowLanes(batch, ending_cost)
    return host, VmDeviceLanes(host, "cpu")


CASES: dict[str, tuple[VmsOptions, BatchSettings, float]] = {
    "ends": (replace(SCENARIOS["recovering"], servers=_SMALL), _PART, 0.0),
    "an end costs": (replace(SCENARIOS["recovering"], servers=_SMALL), _PART, 10.0),
    "to the trace's end": (
        replace(SCENARIOS["recovering"], servers=(ServerShape(6),), reward="cpu"),
        BatchSettings(first=600, last=690),
        0.0,
    ),
    "nothing is given back": (replace(SCENARIOS["fading"], servers=_SMALL), _PART, 0.0),
    "turns away": (replace(SCENARIOS["rejecting"], servers=_SMALL), replace(_PART, limit=40), 0.0),
    "grows": (
        replace(SCENARIOS["expansion"], servers=_SMALL, growth=1, most_servers=4),
        replace(_PART, limit=70),
        0.0,
    ),
    "waits": (replace(SCENARIOS["waiting"], servers=_SMALL), replace(_PART, limit=60), 0.0),
    "waits, SPANE's length": (
        replace(SCENARIOS["waiting"], servers=_SMALL),
        replace(_PART, limit=0, last=60),
        0.0,
    ),
}


def choices_of(legal: np.ndarray[Any, Any], random: np.random.Generator) -> np.ndarray[Any, Any]:
    return np.array([random.choice(np.flatnonzero(mask)) for mask in legal])


@pytest.mark.parametrize("case", CASES)
def test_device_lanes_are_host_lanes(case: str) -> None:
    host, device = pair(*CASES[case])
    random = np.random.default_rng(0)
    ours, theirs = host.reset(7), device.reset(7)
    ended = 0
    for _ in range(150):
        np.testing.assert_array_equal(theirs.legal, ours.legal)
        np.testing.assert_array_equal(theirs.rows, ours.rows)
        np.testing.assert_allclose(theirs.context, ours.context, atol=BOUND, rtol=BOUND)
        chosen = choices_of(ours.legal, random)
        of_host, of_device = host.step(chosen), device.step(chosen)
        np.testing.assert_array_equal(of_device.ended, of_host.ended)
        np.testing.assert_allclose(of_device.rewards, of_host.rewards, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(of_device.own, of_host.own, rtol=1e-12, atol=1e-12)
        ours, theirs = of_host.choices, of_device.choices
        ended += int(of_host.ended.sum())
    assert ended > 0, "no run ended: the law says nothing about new ones"
    assert int(device.world.state.runs.ended_runs.sum()) == ended
    runs = device.world.state.runs
    if case == "grows":
        assert int(runs.servers.max()) > 2, "nobody grew"
    if case == "turns away":
        assert int(runs.rejected.max()) > 0, "nobody was turned away"
    if case.startswith("waits"):
        assert float(runs.ended_wait.max()) > 0.0, "nobody waited"


@pytest.mark.parametrize("seed", range(3))
def test_many_deletions_at_once_and_machines_of_no_length(seed: int) -> None:
    """More than a step's window of deletions between two creations."""
    random = np.random.default_rng(seed)
    arrival = np.sort(np.round(random.random(120) * 30) * 10)
    lifetime = np.where(random.random(120) < 0.2, 0.0, np.round(random.random(120) * 5) * 100)
    lifetime[random.random(120) < 0.1] = np.inf
    trace = VmTrace(
        "t",
        random.integers(1, 12, 120).astype(float),
        random.integers(1, 40, 120).astype(float),
        arrival,
        lifetime,
        events_of(arrival, lifetime),
    )
    for name in ("recovering", "rejecting", "waiting"):
        options = replace(SCENARIOS[name], servers=_SMALL)
        batch = BatchedVms(compile_trace(trace, options.double), options, LANES, BatchSettings(0, 60, 50))
        host = VmRowLanes(batch)
        device = VmDeviceLanes(host, "cpu")
        ours, theirs = host.reset(seed), device.reset(seed)
        for _ in range(60):
            np.testing.assert_array_equal(theirs.rows, ours.rows)
            np.testing.assert_array_equal(theirs.legal, ours.legal)
            chosen = choices_of(ours.legal, random)
            of_host, of_device = host.step(chosen), device.step(chosen)
            np.testing.assert_array_equal(of_device.ended, of_host.ended)
            np.testing.assert_allclose(of_device.rewards, of_host.rewards, rtol=1e-12, atol=1e-12)
            ours, theirs = of_host.choices, of_device.choices


def test_captured_lanes_go_on_as_if_nothing_had_happened() -> None:
    options, settings, _ = CASES["waits"]
    (_, device), (_, other) = pair(options, settings), pair(options, replace(settings, seed=9))
    seen, random = device.observe(), np.random.default_rng(0)
    for _ in range(10):
        seen = device.step(choices_of(seen.legal, random)).choices
    np.testing.assert_array_equal(other.restore(device.capture()).rows, seen.rows)
    for _ in range(70):
        chosen = choices_of(seen.legal, random)
        one, two = device.step(chosen), other.step(chosen)
        seen = one.choices
        for mine, theirs in zip((*one.choices, *one[1:4]), (*two.choices, *two[1:4]), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_what_cannot_be_is_refused() -> None:
    _, device = pair(CASES["ends"][0])
    seen = device.observe()
    illegal = choices_of(seen.legal, np.random.default_rng(0))
    illegal[2] = 99
    with pytest.raises(IllegalDecision, match="of lane 2"):
        device.step(illegal)
    tiny = replace(SCENARIOS["recovering"], servers=(ServerShape(1, 0.001, 0.001),))
    with pytest.raises(UsageError, match="does the cluster fit any machine"):
        pair(tiny)[1].observe()


@pytest.mark.parametrize("case", ["grows", "turns away", "waits, SPANE's length"])
def test_a_step_never_looks_at_a_value(case: str) -> None:
    """So a CUDA graph can hold it: shapes and operations are the same whatever happens in the lanes."""
    _, lanes = pair(*CASES[case])
    tables, state, seen = (hollow(each) for each in (lanes.world.tables, lanes.world.state, lanes.seen))
    before = {name: id(column) for name, column in state.named().items()}
    action = torch.zeros(LANES, dtype=torch.int64, device="meta")
    with Elsewhere() as elsewhere:
        now, _ = step(tables, state, seen, action)
    assert elsewhere.operations == set()
    assert [column.shape for column in now] == [column.shape for column in seen]
    assert {name: id(column) for name, column in state.named().items()} == before, "a graph knows addresses"


def test_a_network_plays_the_same_choices_as_on_the_host() -> None:
    """The rollout of the device, replayed on the host: the same choices are legal, and rewarded alike."""
    host, device = pair(replace(SCENARIOS["recovering"], servers=(ServerShape(3),), reward="cpu"))
    config = PPOConfig(rollout_steps=30, minibatches=2, epochs=1, hidden=8, seed=4)
    learner = TensorPPOLearner(config, device)
    seen, figures = host.reset(4), learner.update()
    rollout = learner._player.rollout
    assert rollout.chose[1:].all(), "a run that ends draws its next start after choices were drawn"
    for row in range(1, 31):
        np.testing.assert_array_equal(rollout.rows.numpy()[row], seen.rows)
        np.testing.assert_array_equal(rollout.allowed.numpy()[row], seen.legal)
        steps = host.step(rollout.action.numpy()[row])
        np.testing.assert_array_equal(rollout.reward.numpy()[row + 1], steps.rewards)
        seen = steps.choices
    assert math.isfinite(figures["loss"]) and learner.steps == 30 * LANES


@pytest.mark.parametrize("case", ["an end costs", "waits"])
def test_a_captured_learner_goes_on_bit_for_bit(case: str) -> None:
    options, settings, cost = CASES[case]
    config = PPOConfig(rollout_steps=16, minibatches=2, epochs=1, hidden=8, seed=4)
    device = pair(options, settings, cost)[1]
    learner = TensorPPOLearner(config, device)
    for _ in range(6):
        learner.update()
        if not device.seen.ready.all():
            break
    if case == "waits":  # a lane that is between two choices is owed a reward
        assert not device.seen.ready.all(), "every lane stood at a choice: the law says nothing about others"
    saved = learner.capture()
    other = TensorPPOLearner(config, pair(options, replace(settings, seed=8), cost)[1])
    other.restore(saved)
    for name, array in other.capture().items():
        np.testing.assert_array_equal(array, saved[name], err_msg=name)
    assert learner.update() == other.update()
    for name, array in learner.capture().items():
        np.testing.assert_array_equal(array, other.capture()[name], err_msg=name)
