"""The calibrated generator: workloads for every verb that is given no data.

`generate(preset, seed)` is called by the command line, the worlds' tests and the benchmarks. The presets
small, medium and large are services and batch work on ordinary servers with departures, constraints and
priorities; their demand at the daily peak is close to the CPU capacity, so that pods queue and preemption
happens. The preset gpu follows the openb experiment: GPU pods arrive and nobody leaves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, assert_never

import numpy as np

from proreus.kernels.arrays import F64
from proreus.model.errors import UsageError, unknown_name
from proreus.model.node import ZONE, Effect, Node, Taint
from proreus.model.pod import GPU_WHOLE, Pod, PodSpec
from proreus.model.selectors import match_labels
from proreus.model.workload import DisruptionBudget, Workload
from proreus.worlds.pods.datasets.apps import App, AppMix, draw_apps
from proreus.worlds.pods.datasets.shapes import (
    GPU_PODS,
    GPU_SERVERS,
    MIXED_SERVERS,
    ORDINARY_PODS,
    SMALL_SERVERS,
    NodeShape,
    PodShape,
)

DEDICATED = Taint("proreus.io/dedicated", "yes", Effect.NO_SCHEDULE)
"""Keeps ordinary pods away from the tainted nodes."""

_DAY = 86_400.0


class Departures(Enum):
    """Whether pods end."""

    BY_DURATION = "by duration"
    NEVER = "never"


@dataclass(frozen=True)
class GeneratorConfig:
    """Everything a generated workload depends on, besides the seed."""

    nodes: int
    """Number of nodes."""
    pods: int | None
    """Number of pods; None (only where pods never leave): as many as it takes to reach `peak_load`."""
    peak_load: float
    """Largest demand for CPU (for GPUs where the nodes have any) as a share of the capacity, if every pod
    started on arrival. Durations are scaled to reach it, as far as the pods and the horizon allow."""
    node_menu: tuple[NodeShape, ...] = MIXED_SERVERS
    """Kinds of machines with their shares."""
    pod_menu: tuple[PodShape, ...] = ORDINARY_PODS
    """Sizes of pods with their shares."""
    departures: Departures = Departures.BY_DURATION
    """Whether pods end; where they never do, they arrive one a second."""
    apps: int = 40
    """Number of applications, and so of distinct pod specs."""
    horizon_seconds: float = _DAY
    """Length of the workload: every pod arrives within it."""
    daily_swing: float = 0.5
    """How far the arrival rate rises above and falls below its mean over one day (0 to 1)."""
    duration_spread: float = 1.2
    """Sigma of the log-normal durations: 1.2 puts the 95th percentile at 7 times the median."""
    zones: int = 3
    """Number of zones; the nodes take turns."""
    tainted_nodes: float = 0.05
    """Share of nodes that only tolerant pods may use."""
    tolerant_pods: float = 0.05
    """Share of pods that tolerate that taint."""
    service_pods: float = 0.4
    """Share of pods in replicated services, softly spread over zones."""
    apart_pods: float = 0.03
    """Share of pods with anti-affinity to their own application (half required, half preferred)."""
    network_pods: float = 0.3
    """Share of pods that ask for network bandwidth."""
    disk_pods: float = 0.2
    """Share of pods that ask for disk bandwidth."""
    budgets: int = 3
    """Number of services with a disruption budget, the largest first."""

    def __post_init__(self) -> None:
        for name in ("nodes", "pods", "apps", "zones", "budgets"):
            if not isinstance(getattr(self, name), int | None):
                raise UsageError(f"generator option {name}: {getattr(self, name)!r} is not a whole number")
        for name in ("nodes", "apps", "zones", "horizon_seconds", "peak_load"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"generator option {name}: {getattr(self, name)} is not above 0")
        for name in (
            "daily_swing",
            "tainted_nodes",
            "tolerant_pods",
            "service_pods",
            "apart_pods",
            "network_pods",
            "disk_pods",
        ):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"generator option {name}: {getattr(self, name)} is not between 0 and 1")
        if self.duration_spread < 0 or self.budgets < 0:
            raise UsageError("generator options duration_spread and budgets cannot be negative")
        if self.pods is None and self.departures is Departures.BY_DURATION:
            raise UsageError("generator option pods: a number is needed where pods end")
        if self.pods is not None and self.pods < 0:
            raise UsageError(f"generator option pods: {self.pods} is negative")


PRESETS: MappingProxyType[str, GeneratorConfig] = MappingProxyType(
    {
        "small": GeneratorConfig(
            nodes=20, pods=200, peak_load=0.95, node_menu=SMALL_SERVERS, apps=24, horizon_seconds=_DAY / 8
        ),
        "medium": GeneratorConfig(nodes=200, pods=4_000, peak_load=1.0, apps=100),
        "large": GeneratorConfig(
            nodes=5_000, pods=30_000, peak_load=0.9, node_menu=SMALL_SERVERS, apps=250, budgets=10
        ),
        "gpu": GeneratorConfig(
            nodes=120,
            pods=None,
            peak_load=1.3,
            node_menu=GPU_SERVERS,
            pod_menu=GPU_PODS,
            departures=Departures.NEVER,
            tainted_nodes=0.0,
        ),
    }
)


def generate(preset: str, seed: int, **overrides: Any) -> Workload:
    """The workload of a preset, some fields of its `GeneratorConfig` changed; same seed, same workload."""
    if preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)
    options = {field.name for field in fields(GeneratorConfig)}
    for name in overrides:
        if name not in options:
            raise unknown_name("generator option", name, options)
    return from_config(preset, replace(PRESETS[preset], **overrides), seed)


def from_config(name: str, config: GeneratorConfig, seed: int) -> Workload:
    """The workload that a configuration and a seed determine."""
    random = np.random.default_rng(seed)
    nodes = _nodes(config, random)
    match config.departures:
        case Departures.BY_DURATION:
            mix = AppMix(
                count=config.apps,
                tolerant=config.tolerant_pods,
                spread=config.service_pods,
                apart=config.apart_pods,
                network=config.network_pods,
                disk=config.disk_pods,
            )
            apps = draw_apps(mix, config.pod_menu, DEDICATED, random)
            return Workload(name, nodes, _timed_pods(config, nodes, apps, random), _budgets(config, apps))
        case Departures.NEVER:
            return Workload(name, nodes, _staying_pods(config, nodes, random))
        case _:
            assert_never(config.departures)


def _nodes(config: GeneratorConfig, random: np.random.Generator) -> tuple[Node, ...]:
    """Nodes in the shares of the menu, in random order: neither shapes nor taints cluster by number."""
    shapes = _apportion([shape.share for shape in config.node_menu], config.nodes)
    order = random.permutation(shapes)
    tainted = set(random.permutation(config.nodes)[: round(config.tainted_nodes * config.nodes)].tolist())
    return tuple(
        Node(
            name=f"node-{index:04d}",
            allocatable=config.node_menu[shape].allocatable,
            gpu_count=config.node_menu[shape].gpus,
            gpu_model=config.node_menu[shape].model,
            labels=((ZONE, f"zone-{index % config.zones + 1}"),),
            taints=(DEDICATED,) if index in tainted else (),
        )
        for index, shape in enumerate(order)
    )


def _apportion(shares: Sequence[float], count: int) -> list[int]:
    """`count` positions of the list of shares, each as often as its share says (largest remainders)."""
    exact = np.array(shares) / sum(shares) * count
    times = np.floor(exact).astype(int)
    rest = count - int(times.sum())
    times[np.argsort(times - exact, kind="stable")[:rest]] += 1
    return [position for position, amount in enumerate(times) for _ in range(amount)]


def _timed_pods(
    config: GeneratorConfig, nodes: Sequence[Node], apps: Sequence[App], random: np.random.Generator
) -> tuple[Pod, ...]:
    """Pods that come by a Poisson process with a daily rhythm and stay for log-normal times."""
    count = config.pods or 0
    arrivals = _arrival_times(config, count, random)
    chosen = random.choice(len(apps), size=count, p=[app.share for app in apps])
    relative = random.lognormal(0.0, config.duration_spread, size=count)
    demand_of_app = np.array([_demand(app.spec, nodes) for app in apps], dtype=np.float64)
    demands = demand_of_app[chosen]
    target = config.peak_load * _capacity(nodes)
    durations = _durations(arrivals, relative, demands, target, config.horizon_seconds)
    numbers = dict.fromkeys(range(len(apps)), 0)
    pods = []
    for arrival, app, duration in zip(arrivals, chosen.tolist(), durations, strict=True):
        name = f"{apps[app].name}-{numbers[app]}"
        numbers[app] += 1
        pods.append(Pod(name, apps[app].spec, float(arrival), float(duration)))
    return tuple(pods)


def _arrival_times(config: GeneratorConfig, count: int, random: np.random.Generator) -> F64:
    """`count` sorted times in the horizon: a Poisson process of that many events, its rate a daily wave.

    Given their number, the events of a Poisson process are independent draws from its normalised rate;
    here they are drawn by inverting the integral of the rate on a fine grid.
    """
    grid = np.linspace(0.0, config.horizon_seconds, 4_097)
    phase = 2 * np.pi * grid / min(_DAY, config.horizon_seconds)
    rate = 1.0 - config.daily_swing * np.cos(phase)  # nights at both ends, the peak in the middle
    integral = np.concatenate(([0.0], np.cumsum((rate[1:] + rate[:-1]) / 2)))
    drawn = np.sort(random.random(count)) * integral[-1]
    times: F64 = np.round(np.interp(drawn, integral, grid), 6)
    return times


def _durations(arrivals: F64, relative: F64, demands: F64, target: float, longest: float) -> F64:
    """The relative durations times the factor that brings the peak demand to the target, by bisection.

    No duration exceeds `longest`. The peak never falls as the factor grows; where even the largest factor
    stays below the target, it is taken.
    """
    if len(arrivals) == 0:
        return relative
    low, high = 0.0, longest / float(relative.min())
    for _ in range(60):
        middle = (low + high) / 2
        if _peak(arrivals, np.minimum(relative * middle, longest), demands) > target:
            high = middle
        else:
            low = middle
    # Rounded down, to microseconds: rounded up, a pod might meet the next one and lift the peak.
    durations: F64 = np.floor(np.minimum(relative * low, longest) * 1e6) / 1e6
    return durations


def _peak(arrivals: F64, durations: F64, demands: F64) -> float:
    """The largest demand of pods that are there at one time, if each starts on arrival."""
    times = np.concatenate((arrivals, arrivals + durations))
    changes = np.concatenate((demands, -demands))
    return float(np.cumsum(changes[np.argsort(times, kind="stable")]).max())


def _staying_pods(
    config: GeneratorConfig, nodes: Sequence[Node], random: np.random.Generator
) -> tuple[Pod, ...]:
    """One pod a second in the shares of the menu, up to the number or the load that is asked for."""
    specs = [
        PodSpec(requests=shape.requests(), gpu=shape.gpu, cpu_limit=shape.cpu) for shape in config.pod_menu
    ]
    shares = np.array([shape.share for shape in config.pod_menu])
    demands = [_demand(spec, nodes) for spec in specs]
    if config.pods is None and not any(demands):
        raise UsageError("generator option pod_menu: no pod asks for what the nodes are short of")
    target = config.peak_load * _capacity(nodes)
    pods: list[Pod] = []
    arrived = 0
    while len(pods) < config.pods if config.pods is not None else arrived < target:
        drawn = int(random.choice(len(specs), p=shares / shares.sum()))
        pods.append(Pod(f"pod-{len(pods):05d}", specs[drawn], arrival=float(len(pods)), duration=math.inf))
        arrived += demands[drawn]
    return tuple(pods)


def _has_gpus(nodes: Sequence[Node]) -> bool:
    return any(node.gpu_count for node in nodes)


def _capacity(nodes: Sequence[Node]) -> int:
    """GPUs in thousandths where there are any, else CPU: what the load is a share of."""
    if _has_gpus(nodes):
        return GPU_WHOLE * sum(node.gpu_count for node in nodes)
    return sum(node.allocatable.cpu for node in nodes)


def _demand(spec: PodSpec, nodes: Sequence[Node]) -> int:
    return spec.gpu.count * spec.gpu.milli if _has_gpus(nodes) else spec.requests.cpu


def _budgets(config: GeneratorConfig, apps: Sequence[App]) -> tuple[DisruptionBudget, ...]:
    services = [app for app in apps if app.service][: config.budgets]
    return tuple(
        DisruptionBudget(f"{app.name}-budget", match_labels({"app": app.name}), max_unavailable=1)
        for app in services
    )
