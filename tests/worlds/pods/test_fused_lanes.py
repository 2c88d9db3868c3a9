"""Kernels of a GPU = lanes of the host: the same episodes, choice by choice, played by Triton's interpreter.

The interpreter takes milliseconds for what a GPU does in nanoseconds: few lanes, few steps. On a GPU
`python -m tests.worlds.pods.on_a_gpu` plays the law of `test_device_lanes` with all of its cases.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import pytest
import torch

if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton, whose interpreter plays the kernels, is not installed", allow_module_level=True)

import tests.interpreted  # noqa: F401, I001 (before the kernels)

from proreus.model.errors import WorkError
from proreus.worlds.pods.datasets.generator import generate
from proreus.worlds.pods.simulation.world import PodsOptions
from proreus.worlds.pods.state.compile import Compiled, compile_workload
from proreus.worlds.pods.training.base_pods import Reward
from proreus.worlds.pods.training.batched_lanes import BatchedPods, BatchOptions
from proreus.worlds.pods.training.device import lanes as device_lanes
from proreus.worlds.pods.training.device.fused import layout
from proreus.worlds.pods.training.device.fused.world import FusedWorld
from proreus.worlds.pods.training.device.ppo import DevicePPO
from proreus.worlds.pods.training.device.world import DeviceWorld
from tests.worlds.pods import on_a_gpu
from tests.worlds.pods.test_device_lanes import gpu, play_both
from tests.worlds.pods.test_device_ppo import CONFIG, goes_on_as_saved


def crowded(nodes: int = 2) -> Compiled:
    """Services and batch work on few nodes: pods queue, preempt, keep apart and have budgets."""
    return compile_workload(
        generate("small", 4, nodes=nodes, pods=16, peak_load=3.0, apart_pods=0.3, apps=6, tainted_nodes=0.0)
    )


def urgent_gpu() -> Compiled:
    """GPU pods on two nodes: later ones may come before earlier ones, and preempt them."""
    work = generate("gpu", 3, nodes=2, pods=24)
    pods = tuple(
        replace(pod, duration=40.0, spec=replace(pod.spec, priority=100 * (i % 4)))
        for i, pod in enumerate(work.pods)
    )
    return compile_workload(replace(work, pods=pods))


CASES: dict[str, tuple[list[Compiled], Reward, BatchOptions, int]] = {
    "gpu": ([gpu(3)], "allocation", BatchOptions(world=PodsOptions(drop_failures=True)), 16),
    "gpu queue": ([gpu(2)], "allocation", BatchOptions(may_delay=True), 16),
    "both kinds": ([crowded(3), urgent_gpu()], "completion", BatchOptions(), 12),
    "as it is": (
        [crowded()],
        "allocation",
        BatchOptions(
            redraw=False,
            may_delay=True,
            may_reject=True,
            world=PodsOptions(requeue_evicted=False, skip_backoff_when_idle=False, attempt_limit=2),
        ),
        26,
    ),
}
"""Blocks are small in all but "gpu queue": a kernel passes over several of pods and of three nodes."""


@pytest.mark.parametrize("case", CASES)
def test_kernels_are_host_lanes(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    workloads, reward, options, steps = CASES[case]
    monkeypatch.setattr(device_lanes, "_world_on", lambda device: FusedWorld)
    if case != "gpu queue":
        monkeypatch.setattr(layout, "_POD_BLOCK", 4)
        monkeypatch.setattr(layout, "_NODE_BLOCK", 2)
    horizon = 16 if options.redraw else 0
    host = BatchedPods(workloads, 2, 5, horizon, reward, options)
    device = device_lanes.DeviceLanes(workloads, 2, 5, horizon, reward, options)
    assert isinstance(device.world, FusedWorld)
    ended, preemptions = play_both(host, device, steps)
    assert ended > 0, "no episode ended: the law says nothing about new ones"
    assert preemptions.all() or case in ("gpu", "gpu queue"), "a lane in which nobody preempted"


def test_a_saved_learner_goes_on_as_if_nothing_had_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_lanes, "_world_on", lambda device: FusedWorld)
    work, config = crowded(), replace(CONFIG, rollout_steps=4, epochs=1)
    goes_on_as_saved(lambda seed: DevicePPO(config, device_lanes.DeviceLanes([work], 2, seed, 12)))


@pytest.mark.parametrize("first", [FusedWorld, DeviceWorld])
def test_what_one_kind_of_world_saved_the_other_takes_up(
    first: type[DeviceWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lanes(world: type[DeviceWorld], seed: int, horizon: int = 12) -> device_lanes.DeviceLanes:
        monkeypatch.setattr(device_lanes, "_world_on", lambda device: world)
        return device_lanes.DeviceLanes([work], 2, seed, horizon)

    work, other = crowded(), DeviceWorld if first is FusedWorld else FusedWorld
    one, two = lanes(first, 5), lanes(other, 99)
    one.observe()
    for _ in range(20):
        one.seen, _ = one.world.step(one.seen, one.seen.legal.long().argmax(1))
        if not one.seen.ready.all():
            break
    assert not one.seen.ready.all(), "every lane stood at a choice"
    saved = one.capture()
    two.take_up(saved)
    assert torch.equal(two.seen.ready, one.seen.ready)
    play_both(one, two, 4)
    with pytest.raises(WorkError, match="does not fit: pods"):
        lanes(other, 5, horizon=2).take_up(saved)


def test_the_law_plays_on_a_gpu_or_says_why_not(capsys: pytest.CaptureFixture[str]) -> None:
    """`on_a_gpu` is for machines that the tests are not run on: what they can do of it is done here."""
    assert on_a_gpu.main(["--device", "cpu", "--cases", "gpu"]) == 0
    assert capsys.readouterr().out.startswith("gpu: 16 lanes of DeviceWorld")
    if not torch.cuda.is_available():
        assert on_a_gpu.main([]) == 2
        refused = capsys.readouterr()
        assert refused.err == "on_a_gpu: torch knows no CUDA device here\n" and not refused.out
