"""A running cluster's own trace as a workload: which pods came when, what they asked for, how long they ran.

What a trace cannot know is settled so, and told: a pod that had not ended stays to the end, one that was
deleted before it had a node is left out, and a node counts for the whole time as it was for most of it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import median

import numpy as np

from proreus.model.cluster_trace import ClusterTrace, NodeTrace, PodTrace
from proreus.model.errors import InputError, UsageError
from proreus.model.node import Node, Pace
from proreus.model.pod import Pod, PodSpec
from proreus.model.workload import Workload


@dataclass(frozen=True)
class TraceReplay:
    """A stretch of a trace as a workload."""

    workload: Workload
    begin: float
    """Seconds since 1970; the workload's time is counted from here."""
    end: float
    censored: int
    """Pods that had not ended: they stay."""
    left_out: int
    """Pods that were deleted before they had a node."""
    disturbed: int
    """Pods that were preempted or evicted: they are replayed for as long as they ran, and whatever took
    their place as a pod of its own."""
    changed_nodes: int
    """Nodes that came, left, or were not the same all the time."""
    lasted: tuple[float, ...]
    """How long each pod ran, for those that had not ended: until the end."""
    unread: int
    """Damaged parts of the trace, and pods that could not be understood."""

    @property
    def told(self) -> str:
        """In one line."""
        pods, nodes = len(self.workload.pods), len(self.workload.nodes)
        parts = [f"{pods:,} pods on {nodes:,} nodes, {moment(self.begin)} to {moment(self.end)}"]
        for number, what in (
            (self.censored, "had not ended and stay to the end"),
            (self.left_out, "were deleted before they had a node and are left out"),
            (self.disturbed, "were preempted or evicted and count for as long as they ran"),
            (self.changed_nodes, "nodes came, left or changed and count for the whole time"),
            (self.unread, "parts of the trace could not be read"),
        ):
            if number:
                parts.append(f"{number:,} {what}")
        return "; ".join(parts)


def moment(seconds: float) -> str:
    """A moment as people write it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def replayed(name: str, trace: ClusterTrace, since: float = 0.0, until: float = math.inf) -> TraceReplay:
    """What happened between two moments; an InputError where that is nothing."""
    begin = max(since, trace.nodes[0].at if not trace.pods else min(trace.nodes[0].at, trace.pods[0].created))
    end = min(until, trace.end)
    if begin >= end:
        raise InputError(
            f"the trace is of {moment(trace.nodes[0].at)} to {moment(trace.end)}: nothing is left"
        )
    nodes, changed = _nodes(trace.nodes, begin, end)
    seen = [pod for pod in trace.pods if pod.created < end and not _ended_by(pod, begin)]
    stay = [pod for pod in seen if not (_ended_by(pod, end) and pod.bound is None)]
    if not stay or not nodes:
        what = "pod" if nodes else "node"
        raise InputError(f"no {what} was recorded between {moment(begin)} and {moment(end)}")
    latencies = [pod.running - pod.bound for pod in stay if pod.running is not None and pod.bound is not None]
    start = max(0.0, round(median(latencies), 3)) if latencies else 0.0
    names, known = Counter[str](), {node.name for node in nodes}
    rows = []
    for pod in stay:
        names[pod.name] += 1
        again = f"#{names[pod.name]}" if names[pod.name] > 1 else ""
        replayed_pod = _pod(pod, pod.name + again, (begin, end), known)
        lasted = replayed_pod.duration if math.isfinite(replayed_pod.duration) else end - (pod.running or end)
        rows.append((replayed_pod, lasted))
    rows.sort(key=lambda row: row[0].arrival)
    pods = [pod for pod, _ in rows]
    workload = Workload(
        name, tuple(replace(node, pace=Pace(start_seconds=start)) for node in nodes), tuple(pods)
    )
    return TraceReplay(
        workload,
        begin,
        end,
        sum(math.isinf(pod.duration) for pod in pods),
        len(seen) - len(stay),
        sum(pod.end in ("preempted", "evicted") and _ended_by(pod, end) for pod in stay),
        changed,
        tuple(lasted for _, lasted in rows),
        trace.unread,
    )


def drawn_anew(replay: TraceReplay, seed: int) -> Workload:
    """The same moments of arrival, with what arrives drawn from what arrived: another day of this kind.

    What was there from the beginning stays as it was. A pod that had not ended, drawn for an earlier moment,
    lasts as long as one of its kind that lasted longer than it had until then; where there is none it stays.
    """
    draw = np.random.default_rng(seed)
    pods = replay.workload.pods
    coming = [place for place, pod in enumerate(pods) if not pod.node]
    lengths: dict[PodSpec, list[float]] = {}
    for place in coming:
        if math.isfinite(pods[place].duration):
            lengths.setdefault(_kind(pods[place].spec), []).append(pods[place].duration)
    redrawn = list(pods)
    for place in coming:
        like = coming[int(draw.integers(len(coming)))]
        spec, duration = pods[like].spec, pods[like].duration
        if math.isinf(duration):
            longer = [length for length in lengths.get(_kind(spec), ()) if length > replay.lasted[like]]
            duration = longer[int(draw.integers(len(longer)))] if longer else math.inf
        redrawn[place] = replace(pods[place], spec=spec, duration=duration)
    return replace(replay.workload, pods=tuple(redrawn))


def _ended_by(pod: PodTrace, when: float) -> bool:
    return pod.ended is not None and pod.ended <= when


def _pod(pod: PodTrace, name: str, stretch: tuple[float, float], nodes: set[str]) -> Pod:
    begin, end = stretch
    there = pod.bound is not None and pod.bound < begin and pod.node in nodes
    if not _ended_by(pod, end):
        duration = math.inf
    else:
        assert pod.ended is not None, "it has ended"
        began = begin if there else pod.running or pod.bound or pod.created
        duration = round(max(0.0, pod.ended - began), 3)
    return Pod(
        name,
        _as_used(pod),
        round(max(0.0, pod.created - begin), 3),
        duration,
        job=pod.owner,
        node=pod.node if there else "",
    )


def _as_used(pod: PodTrace) -> PodSpec:
    """With the share of its CPU request that it really used; to the per cent, so that pods stay alike."""
    asked = pod.spec.requests.cpu
    if pod.used is None or not asked:
        return pod.spec
    share, deviation = (round(amount / asked, 2) for amount in (pod.used.cpu, pod.used.cpu_deviation))
    return replace(pod.spec, usage=share, usage_deviation=deviation)


def _kind(spec: PodSpec) -> PodSpec:
    """What pods have in common that ask for the same, however much of it they use."""
    return replace(spec, usage=1.0, usage_deviation=0.0)


def _nodes(trace: Iterable[NodeTrace], begin: float, end: float) -> tuple[list[Node], int]:
    """Nodes that were there at any time, as they were for most of it, and how many of them changed."""
    states: dict[str, list[NodeTrace]] = {}
    for node_trace in trace:
        if node_trace.at < end:
            states.setdefault(node_trace.name, []).append(node_trace)
    nodes, changed = [], 0
    for name in sorted(states):
        lasted: dict[Node | None, float] = {}
        for state, until in zip(states[name], [*(s.at for s in states[name][1:]), end], strict=True):
            seconds = until - max(state.at, begin)
            if seconds > 0:
                lasted[state.node] = lasted.get(state.node, 0.0) + seconds
        there = {node: seconds for node, seconds in lasted.items() if node is not None}
        if there:
            nodes.append(max(there, key=lambda node: there[node]))
            changed += len(lasted) > 1 or states[name][0].at > begin
    return nodes, changed


# Moments as people write them on a command line: a date, or so long ago.

_AGO = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhdw])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def moment_of(flag: str, text: str, now: float) -> float:
    """Seconds since 1970 of "2026-11-16", "2026-11-16T08:00:00+01:00" (without a zone: UTC), or "7d" ago."""
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return now - float(ago[1]) * _SECONDS[ago[2]]
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"{flag} {text[:40]!r} is no moment: say 2026-11-16, 2026-11-16T08:00:00, or 90m, 24h, 7d ago"
        ) from None
