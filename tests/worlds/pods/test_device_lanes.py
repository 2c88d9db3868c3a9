"""Lanes in torch = lanes of kernels: the same episodes, choice by choice, on whatever device.

Here they run on torch's CPU device; the very same operations run on a GPU. That a step can be captured as a
CUDA graph is told without one: over tensors that hold nothing a step that looks at a value fails.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
import torch

from proreus.kernels.arrays import I64
from proreus.kernels.rng import next_below, next_unit, seeded
from proreus.learning.tensor_lanes import splitmix
from proreus.model.errors import IllegalDecision, UsageError
from proreus.model.pod import Pod, PodAffinity, PodTerm
from proreus.model.selectors import match_labels
from proreus.model.workload import Workload
from proreus.worlds.pods.datasets.generator import generate
from proreus.worlds.pods.simulation.world import PodsOptions
from proreus.worlds.pods.state.compile import Compiled, compile_workload
from proreus.worlds.pods.training.base_pods import Reward, why_on_the_host
from proreus.worlds.pods.training.batched_lanes import BatchedPods, BatchOptions
from proreus.worlds.pods.training.device.lanes import DeviceLanes
from proreus.worlds.pods.training.device.step import step
from tests.tensor_laws import Elsewhere, hollow

LANES = 4
# Features are computed in double precision and kept in single; the logarithm and the sum over all nodes of a
# context may be rounded otherwise.
BOUND = 2e-6


def gpu(nodes: int = 4) -> Compiled:
    """Pods that share GPUs or take several, and stay."""
    return compile_workload(generate("gpu", 3, nodes=nodes, pods=12 * nodes))


def crowded(seed: int = 0) -> Compiled:
    """Services and batch work on too few nodes: pods queue, preempt, keep apart and have budgets."""
    return compile_workload(
        generate("small", seed, nodes=4, pods=40, peak_load=2.5, apart_pods=0.3, apps=8, tainted_nodes=0.25)
    )


def pair(
    workloads: list[Compiled],
    reward: Reward,
    options: BatchOptions,
    seed: int = 5,
    lanes: int = LANES,
) -> tuple[BatchedPods, DeviceLanes]:
    horizon = 0 if not options.redraw else 12 if options.may_delay else 30
    return (
        BatchedPods(workloads, lanes, seed, horizon, reward, options),
        DeviceLanes(workloads, lanes, seed, horizon, reward, options),
    )


def choices_of(legal: np.ndarray[Any, Any], random: np.random.Generator) -> np.ndarray[Any, Any]:
    """Legal actions; often the first, so that nodes fill."""
    return np.array(
        [
            np.flatnonzero(mask)[0] if random.random() < 0.6 else random.choice(np.flatnonzero(mask))
            for mask in legal
        ]
    )


CASES: dict[str, tuple[Callable[[], list[Compiled]], Reward, BatchOptions, int]] = {
    "gpu": (lambda: [gpu()], "allocation", BatchOptions(world=PodsOptions(drop_failures=True)), 40),
    "gpu queue": (lambda: [gpu(3), gpu(5)], "allocation", BatchOptions(may_delay=True), 30),
    "crowded": (lambda: [crowded(), crowded(1)], "completion", BatchOptions(), 70),
    "as it is": (
        lambda: [crowded()],
        "allocation",
        BatchOptions(
            redraw=False,
            may_delay=True,
            may_reject=True,
            world=PodsOptions(requeue_evicted=False, skip_backoff_when_idle=False, attempt_limit=2),
        ),
        50,
    ),
    "both kinds": (lambda: [crowded(2), gpu(3)], "allocation", BatchOptions(), 30),
}


@pytest.mark.parametrize("case", CASES)
def test_device_lanes_are_host_lanes(case: str) -> None:
    play_case(case)


def play_case(case: str, lanes: int = LANES, where: Literal["cpu", "cuda"] = "cpu") -> DeviceLanes:
    """What was played there, and found to be what the host plays."""
    make, reward, options, steps = CASES[case]
    host, device = pair(make(), reward, dataclasses.replace(options, device=where), lanes=lanes)
    ended, preemptions = play_both(host, device, steps)
    assert ended > 0, "no episode ended: the law says nothing about new ones"
    if case in ("crowded", "as it is"):
        assert preemptions.any(), "nobody preempted"
    assert device.world.state.lanes.ended_episodes.sum() == ended
    return device


def play_both(host: BatchedPods | DeviceLanes, device: DeviceLanes, steps: int) -> tuple[int, I64]:
    """The same choices in both, which must look alike all the time: (ends of episodes, preemptions [E])."""
    random = np.random.default_rng(0)
    ours, theirs = host.observe(), device.observe()
    ended, preemptions = 0, np.zeros(len(device), dtype=np.int64)
    for _ in range(steps):
        np.testing.assert_array_equal(theirs.legal, ours.legal)
        np.testing.assert_allclose(theirs.rows, ours.rows, atol=BOUND, rtol=BOUND)
        np.testing.assert_allclose(theirs.context, ours.context, atol=BOUND, rtol=BOUND)
        preemptions += ours.legal[:, host.nodes : 2 * host.nodes].any(1)
        chosen = choices_of(ours.legal, random)
        of_host, of_device = host.step(chosen), device.step(chosen)
        np.testing.assert_array_equal(of_device.ended, of_host.ended)
        np.testing.assert_allclose(of_device.rewards, of_host.rewards, rtol=1e-12, atol=1e-12)
        ours, theirs = of_host.choices, of_device.choices
        ended += int(of_host.ended.sum())
    return ended, preemptions


def test_a_seed_begins_the_same_episodes() -> None:
    host, device = pair([gpu()], "allocation", BatchOptions(world=PodsOptions(drop_failures=True)))
    first = device.reset(9)
    np.testing.assert_array_equal(first.rows, host.reset(9).rows)
    device.step(choices_of(first.legal, np.random.default_rng(0)))
    np.testing.assert_array_equal(device.reset(9).rows, first.rows)


def test_a_captured_batch_goes_on_as_if_nothing_had_happened() -> None:
    _, device = pair([crowded()], "completion", BatchOptions())
    seen, random = device.observe(), np.random.default_rng(0)
    for _ in range(10):
        seen = device.step(choices_of(seen.legal, random)).choices
    saved = device.capture()
    _, other = pair([crowded()], "completion", BatchOptions(), seed=77)
    np.testing.assert_array_equal(other.restore(saved).rows, seen.rows)
    for _ in range(10):
        chosen = choices_of(seen.legal, random)
        one, two = device.step(chosen), other.step(chosen)
        seen = one.choices
        for mine, theirs in zip(
            (*one.choices, one.rewards, one.ended), (*two.choices, two.rewards, two.ended), strict=True
        ):
            np.testing.assert_array_equal(mine, theirs)


def test_an_illegal_action_changes_nothing() -> None:
    _, device = pair([gpu()], "allocation", BatchOptions())
    seen = device.observe()
    before = device.capture()
    illegal = np.array([int(np.flatnonzero(~mask)[0]) for mask in seen.legal])
    with pytest.raises(IllegalDecision, match="of lane 0"):
        device.step(illegal)
    for name, column in device.capture().items():
        np.testing.assert_array_equal(column, before[name])


def test_rules_that_the_device_lacks_are_told_before_the_start() -> None:
    work = generate("gpu", 0, nodes=2, pods=4)
    spec = work.pods[0].spec
    term = PodTerm(match_labels({"a": "b"}), "kubernetes.io/hostname")
    for other, what in (
        (dataclasses.replace(spec, host_ports=(("", "TCP", 80),)), "host ports"),
        (dataclasses.replace(spec, affinity=PodAffinity(required=(term,))), "required affinity"),
    ):
        workload = Workload("w", work.nodes, (Pod("p", other, 0.0, 1.0),))
        with pytest.raises(UsageError, match=f"workload w has pods with {what}.*--worlds host"):
            DeviceLanes(compile_workload(workload), 1)
    assert why_on_the_host([compile_workload(work)]) is None


def test_the_generator_is_the_hosts() -> None:
    states = [seeded(seed) for seed in (0, 1, 2**63 + 5)]
    tensor = torch.from_numpy(np.concatenate(states).view(np.int64))
    for bound in (1, 7, 1000):
        tensor = splitmix.ahead(tensor, 1)
        drawn = splitmix.next_below(tensor, torch.full((3,), bound))
        assert drawn.tolist() == [next_below(state, bound) for state in states]
    tensor = splitmix.ahead(tensor, 1)
    assert splitmix.next_unit(tensor).tolist() == [next_unit(state) for state in states]


@pytest.mark.parametrize("make", [gpu, crowded])
def test_a_step_never_looks_at_a_value(make: Callable[[], Compiled]) -> None:
    """So a CUDA graph can hold it: shapes and operations are the same whatever happens in the lanes."""
    _, lanes = pair([make()], "completion" if make is crowded else "allocation", BatchOptions())
    world = lanes.world
    tables, state, seen = (hollow(each) for each in (world.tables, world.state, lanes.seen))
    before = {name: id(column) for name, column in state.named().items()}
    action = torch.zeros(LANES, dtype=torch.int64, device="meta")
    with Elsewhere() as elsewhere:
        now, told = step(tables, world.rules, state, seen, action, world.events)
    assert elsewhere.operations == set()
    assert [column.shape for column in now] == [column.shape for column in seen]
    assert {name: id(column) for name, column in state.named().items()} == before, "a graph knows addresses"
    with pytest.raises((RuntimeError, NotImplementedError)):
        bool(told.came.any())  # what a look would have come to
    with pytest.raises((RuntimeError, NotImplementedError)):
        now.rows[told.came]  # and a shape that depends on values
