"""`proreus bench extender`: latency of kube-scheduler's extender calls by the size of the cluster.

An extender in a process of its own follows a generated cluster of ten pods a node and is asked over HTTP as
kube-scheduler asks: filter, then prioritize, one pod after the other on one connection. At 5,000 nodes
kube-scheduler scores a sample of 500; all 5,000 are asked about, too. The peer is the same extender without
`nodeCacheCapable`, to which whole nodes are sent.
"""

from __future__ import annotations

import http.client
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np

from proreus.bench.extender_server import node_object, pod_object
from proreus.bench.server_process import started, wait_for
from proreus.contract.benchmark import BenchRow, claim
from proreus.kernels.arrays import F64
from proreus.model.errors import UsageError, WorkError

POLICIES = ("learned", "kube")
GOAL_MS = 20.0
"""Both calls of a pod at the 99th percentile, by names: fifty pods a second on one connection."""
_SIZES = (1_000, 5_000)
_WARM, _WHOLE_CALLS = 20, 20


def bench_extender(
    data: Path | None,
    tell: Callable[[str], None],
    *,
    calls: Annotated[int, "Pods that are asked about, for each row."] = 300,
) -> Iterator[BenchRow]:
    """Filter and prioritize at 1,000 and 5,000 nodes; needs no data."""
    del data
    if calls < 10:
        raise UsageError("--calls must be at least 10")
    for nodes in _SIZES:
        for policy in POLICIES:
            tell(f"{policy}: listing {nodes:,} nodes")
            with tempfile.TemporaryDirectory() as folder:
                told = Path(folder) / "port"
                with started("-m", "proreus.bench.extender_server", str(nodes), policy, str(told)) as server:
                    wait_for(server, told.exists)
                    asked = _Asked(int(told.read_text()))
                    tell(f"{policy}: asking at {nodes:,} nodes")
                    yield from _rows(asked, policy, nodes, calls)
                    asked.close()


def _rows(asked: _Asked, policy: str, nodes: int, calls: int) -> Iterator[BenchRow]:
    names = [node_object(index)["metadata"]["name"] for index in range(nodes)]
    sample = names[: max(100, nodes * max(5, 50 - nodes // 125) // 100)]
    asked.pods(sample, _WARM)
    whole = asked.whole(nodes, _WHOLE_CALLS)
    for what, some in ((f"{len(sample)} sampled", sample), (f"all {nodes}", names)):
        filtered, scored = asked.pods(some, calls)
        both = filtered + scored
        label = f"{policy}, {nodes:,} nodes, {what}"
        yield claim(f"{label}: filter, p50", "ms", _at(filtered, 50), better="lower")
        yield claim(f"{label}: prioritize, p50", "ms", _at(scored, 50), better="lower")
        yield claim(f"{label}: prioritize, p99", "ms", _at(scored, 99), better="lower")
        sampled = some is sample
        yield claim(
            f"{label}: both, p99",
            "ms",
            _at(both, 99),
            better="lower",
            goal=GOAL_MS if sampled else None,
            peer=None if sampled else (_at(whole, 99), "whole nodes"),
        )


class _Asked:
    """One connection, as kube-scheduler keeps it."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._number = 0

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def pods(self, names: Sequence[str], count: int) -> tuple[F64, F64]:
        """Milliseconds of filter and of prioritize, for so many pods, by names."""
        listed = json.dumps(list(names)).encode()
        times = [self._both(b'"NodeNames":' + listed) for _ in range(count)]
        found = np.array(times)
        return found[:, 0], found[:, 1]

    def whole(self, nodes: int, count: int) -> F64:
        """Milliseconds of both calls with whole nodes."""
        items = json.dumps([node_object(index) for index in range(nodes)]).encode()
        return np.array([sum(self._both(b'"Nodes":{"items":' + items + b"}")) for _ in range(count)])

    def _both(self, nodes: bytes) -> tuple[float, float]:
        self._number += 1
        pod = json.dumps(pod_object(f"asked-{self._number}", self._number)).encode()
        body = b'{"Pod":' + pod + b"," + nodes + b"}"
        return self._call("/filter", body), self._call("/prioritize", body)

    def _call(self, path: str, body: bytes) -> float:
        began = time.perf_counter()
        self._connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        content = answer.read()
        took = (time.perf_counter() - began) * 1e3
        if answer.status != 200:
            raise WorkError(f"{path}: {answer.status} {content[:200]!r}")
        return took


def _at(times: F64, percentile: float) -> float:
    return float(np.percentile(times, percentile))
