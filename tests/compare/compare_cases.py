"""What the tests of the comparison are made of: chosen figures, and sources that misbehave."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from proreus.compare.comparison import CompareRequest, Comparison
from proreus.compare.statistics import summarise
from proreus.compare.trials import TrialResult
from proreus.contract.heatmap import heat_map
from proreus.contract.replay import ABSENT, OUTSIDE, Move, Replay, Stage, levels_of, replay_of
from proreus.contract.world import Picture, Recording
from proreus.model.errors import InputError
from proreus.model.workload import Workload
from proreus.worlds.inference.scenarios import PRESETS
from proreus.worlds.inference.simulation.outcome import MEASURES as OF_INFERENCE
from proreus.worlds.pods.datasets.generator import generate
from proreus.worlds.pods.scenarios import PodScenario
from proreus.worlds.pods.simulation.outcome import MEASURES
from proreus.worlds.pods.simulation.world import PodsOptions


@dataclass(frozen=True)
class Tiny:
    """A small workload under any name."""

    name: str = "tiny"

    def load(self, seed: int) -> Workload:
        return generate("small", seed, nodes=6, pods=40)


@dataclass(frozen=True)
class Killed:
    """Ends the process that loads it, as the kernel does when memory runs out."""

    name: str = "killed"

    def load(self, seed: int) -> Workload:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("still alive")


class Stubborn(Exception):
    """Cannot be unpickled: it would take a broken pool for a broken task."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} {other}")


@dataclass(frozen=True)
class Failing:
    """Fails in the given way, on seed 1 only."""

    way: str
    name: str = "failing"

    def load(self, seed: int) -> Workload:
        if seed != 1:
            return Tiny().load(seed)
        match self.way:
            case "stubborn":
                raise Stubborn("does not", "travel")
            case "input":
                raise InputError("is not a number", file="pods.csv", line=3, field="cpu")
            case _:
                raise RuntimeError(f"threads {os.environ.get('OMP_NUM_THREADS')}")


def picture(nodes: int = 5, moments: int = 9, end: float = 100.0, *, by_load: bool = False) -> Picture:
    """Some curves and a heat map."""
    time = np.linspace(0.0, end, 8 * moments)
    share = np.linspace(0.0, 100.0, time.size)
    shares = np.random.default_rng(nodes).random((moments, nodes)).astype(np.float32)
    series = {
        "waiting": share,
        "running": share,
        "gpu-allocation": share,
        "cpu-allocation": share / 2,
        "fragmentation": share / 10,
    }
    recording = Recording(time, series, 1.3 * share if by_load else None)
    facts = (f"{nodes:,} nodes", "17 pods")
    return Picture(recording, heat_map(shares, time[::8].copy()), facts, replay(nodes, moments))


def replay(nodes: int, frames: int) -> Replay:
    """Something that goes from node to node, under names that are no markup."""
    rng = np.random.default_rng(nodes)
    stage = Stage("node", tuple(f"<i>{n}</i>" for n in range(nodes)), ("CPU", "</script>"), idle="<b>none")
    states = [levels_of(rng.random((nodes, 2, 2))) for _ in range(frames)]
    moves = [[Move("</script><b>", at % nodes, (at + 1) % nodes)] if at else [] for at in range(frames)]
    return replay_of(stage, states, moves, lambda _, at: f"<moment {at}>")


def pools(servers: int = 6, frames: int = 5) -> Replay:
    """Servers that come, change sides and go: group and state are the last two gauges."""
    stage = Stage(
        "server",
        tuple(f"<i>{n}</i>" for n in range(servers)),
        ("KV",),
        groups=("prompt <b>", "token"),
        states=("starting", "busy"),
    )
    states = []
    for frame in range(frames):
        levels = np.zeros((servers, 1, stage.depth), dtype=np.uint8)
        levels[:, 0, 0], levels[:, 0, 1] = 20 * frame, (np.arange(servers) + frame) % 2
        levels[:, 0, 2] = frame > 1
        levels[frame + 2 :] = ABSENT
        states.append(levels)
    moves = [
        [Move(f"instance {at}", OUTSIDE, min(at + 1, servers - 1))] if at else [] for at in range(frames)
    ]
    return replay_of(stage, states, moves, lambda _, at: f"moment {at}")


def scaled(points: Mapping[str, Sequence[tuple[float, float]]]) -> Comparison:
    """Policies of the world `inference` that came to (GPU-hours, SLO attainment) with each seed."""
    time = np.arange(0.0, 1_200.0, 10.0, dtype=np.float64)
    series = {
        "load": np.abs(np.sin(time / 200.0)) * 30.0,
        "prompt active": np.floor(time / 400.0) + 1.0,
        "prompt starting": (time % 400.0 > 300.0).astype(np.float64),
        "token active": np.full(time.size, 2.0),
        "missed": np.where(time > 900.0, 60.0, 0.0),
    }
    shown = Picture(Recording(time, series), heat_map(np.zeros((3, 6), np.float32), time[:3]), (), pools())
    results = [
        TrialResult(
            "steady",
            policy,
            seed,
            {"weighed_gpu_hours": hours, "gpu_hours": hours, "slo_attainment": share},
            shown if seed == 0 else None,
        )
        for policy, point in points.items()
        for seed, (hours, share) in enumerate(point)
    ]
    seeds = tuple(range(max(len(point) for point in points.values())))
    request = CompareRequest((PRESETS["steady"],), tuple(points), seeds=seeds)
    return Comparison(request, tuple(results), summarise(results, OF_INFERENCE))


def made(
    measures: Mapping[str, Mapping[str, Sequence[float]]],
    *,
    scenarios: Sequence[str] = ("made",),
    drop_failures: bool = False,
    nodes: int = 5,
) -> Comparison:
    """A comparison in which policy `p` had value `measures[p][m][i]` of measure `m` with seed `i`."""
    seeds = range(max(len(values) for of_policy in measures.values() for values in of_policy.values()))
    results = [
        TrialResult(
            scenario,
            policy,
            seed,
            {name: values[seed] for name, values in of_policy.items() if seed < len(values)},
            picture(nodes, by_load=drop_failures) if seed == 0 else None,
        )
        for scenario in scenarios
        for seed in seeds
        for policy, of_policy in measures.items()
    ]
    request = CompareRequest(
        tuple(PodScenario(Tiny(name), PodsOptions(drop_failures=drop_failures)) for name in scenarios),
        tuple(measures),
        seeds=tuple(seeds),
    )
    return Comparison(request, tuple(results), summarise(results, MEASURES))
