"""Reads requests and monitor samples as windows of pods.

A table of requests (`time,pod,cpu,mem`, in seconds) names the pod of each request or leaves the cell empty:
such requests are dealt to the pods in turn. The Huawei lifetime table is read as a stream of
requests dealt in turn, and a five-minute monitor as one request of every pod and window.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from proreus.data.cleaning.pipeline import REQUESTS_FILE, WINDOWS_FILE
from proreus.data.table import TableRow, read_filled_table
from proreus.data.text_file import read_lines
from proreus.data.vm_lifetimes import read_lifetimes
from proreus.model.errors import UsageError
from proreus.worlds.rebalance.windows.model import WINDOW, Deployment, RequestWindows, round_robin, windows_of

CLEANED = (REQUESTS_FILE, WINDOWS_FILE)
"""What `proreus data clean` writes, the finer of them first."""
_NODES, _PODS, _TOTAL, _STANDING = 10, 50, 100.0, 5.0
"""Of VMAgent's DeployEnv: ten nodes of 100/100, five pods on each, which ask for 5/5 at rest."""
_MONITOR_NODE = (4.0, 8.0)
"""Cores and GiB of the nodes that were monitored."""
MONITOR_SCALE = (8.0, 20.0)
"""The pods used a few hundredths of their nodes; so many times that, nodes come near their threshold."""
_GIB = 2.0**30
_MEAN_USE = 0.6


@dataclass(frozen=True)
class EvenSpread:
    """Nodes for pods of which nobody said where they stand: equal ones, each with its share of the pods."""

    nodes: int = _NODES
    together: int = 1
    """Requests that a pod serves at a time."""

    def over(self, names: tuple[str, ...], pod: NDArray[np.int64], amount: NDArray[np.float64]) -> Deployment:
        """The deployment for requests of amount[R, 2] of pods, int64[R].

        Nodes are so large that the mean requests of all pods fill 60 % of them, and that any request fits.
        """
        if self.nodes < 1:
            raise UsageError(f"nodes: {self.nodes} is not at least 1")
        asked = np.zeros((len(names), 2))
        np.add.at(asked, pod, amount)
        asked /= np.maximum(np.bincount(pod, minlength=len(names)), 1)[:, None]
        size = np.maximum(
            self.together * asked.sum(axis=0) / (_MEAN_USE * self.nodes), self.together * amount.max(axis=0)
        )
        return Deployment(
            tuple(f"node{n + 1}" for n in range(self.nodes)),
            names,
            np.tile(np.maximum(size, 1e-9), (self.nodes, 1)),
            np.zeros((len(names), 2)),
            np.arange(len(names)) % self.nodes,
        )


def cleaned_file(path: Path) -> Path:
    """The file itself; of a folder that cleaning wrote the requests, or where there are none the windows."""
    if not path.is_dir():
        return path
    return next((path / name for name in CLEANED if (path / name).is_file()), path / CLEANED[0])


def read_requests(path: Path, deployment: Deployment | EvenSpread) -> RequestWindows:
    """The requests of a table, for the pods of a deployment, or for its own pods on equal nodes.

    The table is one of requests, or of windows: `window_start,pod,cpu,mem,requests`, as cleaning writes both;
    or the folder that cleaning wrote.
    """
    path = cleaned_file(path)
    moment = "window_start" if _is_of_windows(path) else "time"
    rows = read_filled_table(
        path, required=(moment, "pod", "cpu", "mem"), optional=("requests", "window_start", "time")
    )
    moments = np.array([row.number(moment) for row in rows])
    amounts = np.array([[row.number("cpu"), row.number("mem")] for row in rows])
    # Cleaning writes a pod's window when it closes, so pods may take turns in being ahead.
    order = np.argsort(moments, kind="stable")
    window = np.floor(moments[order] / WINDOW).astype(np.int64)
    names = [rows[place].optional_text("pod") for place in order.tolist()]
    if isinstance(deployment, EvenSpread):
        known = tuple(sorted(set(filter(None, names))))
    else:
        known = deployment.pod_names
    if not known:
        raise rows[0].fail(
            "pod", "no row names a pod: name the pods in a layout, or clean the log with --pods"
        )
    number = {name: p for p, name in enumerate(known)}
    pod = np.zeros(len(rows), dtype=np.int64)
    turn = 0
    for place, name in enumerate(names):
        if not name:
            pod[place], turn = turn % len(number), turn + 1
        elif name in number:
            pod[place] = number[name]
        else:
            raise rows[order[place]].fail("pod", f"no node of the layout has a pod {name!r}")
    amounts = amounts[order]
    where = deployment.over(known, pod, amounts) if isinstance(deployment, EvenSpread) else deployment
    return windows_of(path.stem, where, window, pod, amounts)


def _is_of_windows(path: Path) -> bool:
    header = next(iter(read_lines(path)), "").strip().split(",")
    return "window_start" in header and "time" not in header


def read_huawei_stream(path: Path) -> RequestWindows:
    """Machines of the Huawei trace as requests: each asks for its cores and memory in its first window."""
    machines = read_lifetimes(path)
    deployment = Deployment(
        tuple(f"node{n + 1}" for n in range(_NODES)),
        tuple(f"pod{p + 1}" for p in range(_PODS)),
        np.full((_NODES, 2), _TOTAL),
        np.full((_PODS, 2), _STANDING),
        np.arange(_PODS) * _NODES // _PODS,
    )
    amount = np.stack([machines.cpu, machines.mem], axis=1)
    window = np.floor(machines.arrival / WINDOW).astype(np.int64)
    return windows_of("huawei", deployment, window, round_robin(len(amount), _PODS), amount)


def read_monitor(path: Path, scale: tuple[float, float] = MONITOR_SCALE) -> RequestWindows:
    """Samples of pods every five minutes: what a pod used is what it asks for in that window."""
    rows = read_filled_table(path, required=("time_utc", "node", "pod", "mem_bytes", "cpu_cores"))
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


def _moment(row: TableRow) -> float:
    try:
        return datetime.fromisoformat(row.text("time_utc")).timestamp()
    except ValueError:
        raise row.fail(
            "time_utc", f"{row.text('time_utc')!r} is not a time such as 2022-04-11T03:49:15Z"
        ) from None
