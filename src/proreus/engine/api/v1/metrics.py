"""Figures of the door and the cluster, as Prometheus reads them and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proreus.engine.api.server.loop_watchdog import Watchdog
from proreus.engine.api.server.middleware import Counts
from proreus.engine.api.v1.overview import Overview
from proreus.engine.runtimes.protocol import Use

TEXT = b"text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Sample:
    """One figure."""

    name: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """Figures of one name."""

    name: str
    type: str
    about: str
    samples: tuple[Sample, ...]


Labels = tuple[tuple[str, str], ...]


def families(
    counts: Counts,
    watches: int,
    watchdog: Watchdog,
    overview: Overview,
    containers: Mapping[str, Sequence[Use]],
) -> Iterator[Family]:
    """All figures, now; containers: what is measured of them, by the uids of their pods."""
    yield _family(
        "proreus_api_requests_total",
        "counter",
        "Requests that were answered.",
        {(("code", str(code)), ("verb", verb)): float(n) for (verb, code), n in counts.requests.items()},
    )
    yield _family(
        "proreus_api_request_seconds_total",
        "counter",
        "Seconds that requests took.",
        {(("verb", verb),): seconds for verb, seconds in counts.seconds.items()},
    )
    yield _family("proreus_api_requests", "gauge", "Requests under way.", {(): float(counts.working)})
    yield _family("proreus_api_watches", "gauge", "Watches under way.", {(): float(watches)})
    yield _family(
        "proreus_api_streams",
        "gauge",
        "Streams of exec, attach and port-forward under way.",
        {(): float(counts.switched)},
    )
    yield _family(
        "proreus_api_loop_held_seconds",
        "gauge",
        "How long nothing was answered at most, since this was last read.",
        {(): watchdog.take()},
    )
    yield _family(
        "proreus_api_loop_worked_seconds",
        "gauge",
        "CPU time of the loop at most while nothing was answered, since this was last read.",
        {(): watchdog.take_own()},
    )
    yield _family(
        "proreus_api_loop_held_longest_seconds",
        "gauge",
        "The same, since the start.",
        {(): watchdog.longest},
    )
    yield _family(
        "proreus_pods",
        "gauge",
        "Pods by phase.",
        {(("phase", phase),): float(count) for phase, count in overview.phases.items()},
    )
    yield _family("proreus_pods_waiting", "gauge", "Pods without a node.", {(): float(overview.waiting)})
    yield _family(
        "proreus_nodes",
        "gauge",
        "Nodes by state.",
        {(("state", state),): float(count) for state, count in overview.node_counts().items()},
    )
    yield from _of_nodes(overview)
    yield from _of_containers(overview, containers)


def _of_nodes(overview: Overview) -> Iterator[Family]:
    used = {(("node", name),): (cpu, memory) for name, cpu, memory in overview.used()}
    yield _family(
        "proreus_node_cpu_used_cores",
        "gauge",
        "Cores in use on a node, by whomever.",
        {labels: cpu / 1000.0 for labels, (cpu, _) in used.items()},
    )
    yield _family(
        "proreus_node_memory_used_bytes",
        "gauge",
        "Memory in use on a node, by whomever.",
        {labels: float(memory) for labels, (_, memory) in used.items()},
    )


def _of_containers(overview: Overview, containers: Mapping[str, Sequence[Use]]) -> Iterator[Family]:
    measured: dict[Labels, Use] = {}
    for uid, uses in containers.items():
        place = overview.pod_at(uid)
        if place is not None:
            namespace, pod, node = place
            for use in uses:
                who = {"container": use.container, "namespace": namespace, "node": node, "pod": pod}
                measured[tuple(who.items())] = use
    yield _family(
        "proreus_container_cpu_used_cores",
        "gauge",
        "Cores that a container uses.",
        {labels: use.cpu / 1000.0 for labels, use in measured.items()},
    )
    yield _family(
        "proreus_container_memory_working_set_bytes",
        "gauge",
        "Memory that a container cannot do without.",
        {labels: float(use.memory) for labels, use in measured.items()},
    )
    yield _family(
        "proreus_container_disk_used_bytes",
        "gauge",
        "Files that a container has written, its output included.",
        {labels: float(use.disk) for labels, use in measured.items()},
    )


def _family(name: str, type_: str, about: str, values: dict[Labels, float]) -> Family:
    return Family(
        name, type_, about, tuple(Sample(name, value, labels) for labels, value in sorted(values.items()))
    )


def as_text(families: Iterator[Family]) -> bytes:
    """In Prometheus' exposition format."""
    lines = []
    for family in families:
        lines += [f"# HELP {family.name} {family.about}", f"# TYPE {family.name} {family.type}"]
        for sample in family.samples:
            labels = ",".join(f'{key}="{_escaped(value)}"' for key, value in sample.labels)
            named = f"{sample.name}{{{labels}}}" if labels else sample.name
            lines.append(f"{named} {sample.value!r}")
    return ("\n".join(lines) + "\n").encode()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def as_json(families: Iterator[Family]) -> dict[str, Any]:
    """By name: what it is, and its figures."""
    return {
        family.name: {
            "type": family.type,
            "about": family.about,
            "samples": [{"labels": dict(sample.labels), "value": sample.value} for sample in family.samples],
        }
        for family in families
    }
