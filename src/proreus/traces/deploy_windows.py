"""Reads requests and monitor samples as windows of pods.

A table of requests (`time,pod,cpu,mem`, seconds, in order of time) names the pod of each request or leaves
the cell empty: such requests are dealt to the pods in turn. The Huawei lifetime table is read as a stream of
requests dealt in turn, and a five-minute monitor as one request of every pod and window.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np

from proreus.model.deploy import WINDOW, Deployment, RequestWindows, round_robin, windows_of
from proreus.model.errors import InputError
from proreus.traces.huawei import read_lifetimes
from proreus.traces.table import Row, read_table

_NODES, _PODS, _TOTAL, _STANDING = 10, 50, 100.0, 5.0
"""Of the environment in the notes: ten nodes of 100/100, five pods on each, which ask for 5/5 at rest."""
_MONITOR_NODE = (4.0, 8.0)
"""Cores and GiB of the nodes that were monitored."""
MONITOR_SCALE = (8.0, 20.0)
"""The pods used a few hundredths of their nodes; so many times that, nodes come near their threshold."""
_GIB = 2.0**30


def read_requests(path: Path, deployment: Deployment) -> RequestWindows:
    """The requests of a table, for the pods of a deployment."""
    rows = read_table(path, required=("time", "pod", "cpu", "mem"))
    if not rows:
        raise InputError("there is a header and no row", file=path)
    number = {name: p for p, name in enumerate(deployment.pod_names)}
    turn, before = 0, 0.0
    moments, pods, amounts = (
        np.zeros(len(rows)),
        np.zeros(len(rows), dtype=np.int64),
        np.zeros((len(rows), 2)),
    )
    for place, row in enumerate(rows):
        moments[place] = row.number("time")
        if moments[place] < before:
            raise row.fail("time", "is before that of the row above: sort the table, or clean it first")
        before = moments[place]
        name = row.optional_text("pod")
        if not name:
            pods[place], turn = turn % len(number), turn + 1
        elif name in number:
            pods[place] = number[name]
        else:
            raise row.fail("pod", f"no node of the layout has a pod {name!r}")
        amounts[place] = row.number("cpu"), row.number("mem")
    return windows_of(path.stem, deployment, np.floor(moments / WINDOW).astype(np.int64), pods, amounts)


def read_huawei_stream(path: Path) -> RequestWindows:
    """Machines of the Huawei trace as requests: each asks for its cores and memory in its first window."""
    trace = read_lifetimes(path)
    deployment = Deployment(
        tuple(f"node{n + 1}" for n in range(_NODES)),
        tuple(f"pod{p + 1}" for p in range(_PODS)),
        np.full((_NODES, 2), _TOTAL),
        np.full((_PODS, 2), _STANDING),
        np.arange(_PODS) * _NODES // _PODS,
    )
    amount = np.stack([trace.cpu, trace.mem], axis=1)
    window = np.floor(trace.arrival / WINDOW).astype(np.int64)
    return windows_of("huawei", deployment, window, round_robin(len(trace), _PODS), amount)


def read_monitor(path: Path, scale: tuple[float, float] = MONITOR_SCALE) -> RequestWindows:
    """Samples of pods every five minutes: what a pod used is what it asks for in that window."""
    rows = read_table(path, required=("time_utc", "node", "pod", "mem_bytes", "cpu_cores"))
    if not rows:
        raise InputError("there is a header and no row", file=path)
    nodes = {name: n for n, name in enumerate(dict.fromkeys(row.text("node") for row in rows))}
    home = {row.text("pod"): nodes[row.text("node")] for row in rows}
    pods = {name: p for p, name in enumerate(home)}
    deployment = Deployment(
        tuple(nodes),
        tuple(pods),
        np.tile(np.array(_MONITOR_NODE), (len(nodes), 1)),
        np.zeros((len(pods), 2)),
        np.array(list(home.values()), dtype=np.int64),
    )
    moments = np.array([_moment(row) for row in rows])
    window = np.floor((moments - moments.min()) / WINDOW).astype(np.int64)
    pod = np.array([pods[row.text("pod")] for row in rows], dtype=np.int64)
    amount = np.array([[row.number("cpu_cores"), row.number("mem_bytes") / _GIB] for row in rows]) * scale
    return windows_of("monitor", deployment, window, pod, amount)


def _moment(row: Row) -> float:
    try:
        return datetime.fromisoformat(row.text("time_utc")).timestamp()
    except ValueError:
        raise row.fail(
            "time_utc", f"{row.text('time_utc')!r} is not a time such as 2022-04-11T03:49:15Z"
        ) from None
