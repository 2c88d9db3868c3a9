"""`proreus bench engine`: pods through the whole engine (API, store, scheduler, binding) on simulated nodes.

The engine is one process, started as its users start it (`proreus up`); the clients and the watch that sees
pods bound are another (`engine_load`), so both cores are in use. For SQLite, and for etcd where it is
installed: all pods at once, from the first request to the last binding; then pods at a steady rate, for the
time from a request to the event that shows the node. Memory is the engine's own at its largest; how long its
loop was held is what its metrics say.

The peer is a figure that was measured once on two cores of the same kind, not in this run: kube-apiserver,
etcd and kube-scheduler 1.20 bound about 120 pods per second there.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

from proreus.bench.engine_load import PodPlan, PodResult
from proreus.bench.server_process import started, wait_for
from proreus.contract.benchmark import BenchRow, claim
from proreus.model.errors import UsageError, WorkError

PODS_PER_SECOND = 300.0
KUBERNETES = (120.0, "kube-apiserver, etcd, kube-scheduler; measured once")
STEADY_RATE, STEADY_PODS = 100.0, 1_000
_CLIENTS = 16


def bench_engine(
    data: Path | None,
    tell: Callable[[str], None],
    *,
    nodes: Annotated[int, "simulated nodes"] = 1_000,
    pods: Annotated[int, "pods that are created at once"] = 10_000,
    stores: Annotated[str, "sqlite, etcd, or both with a comma"] = "sqlite,etcd",
) -> Iterator[BenchRow]:
    """Rates, times and memory for each store; needs no data, and the extra `engine`."""
    del data
    wanted = [store.strip() for store in stores.split(",") if store.strip()]
    unknown = [store for store in wanted if store not in ("sqlite", "etcd")]
    if unknown or not wanted:
        raise UsageError(f"--stores: {', '.join(unknown) or 'nothing'}: say sqlite, etcd or sqlite,etcd")
    for store in wanted:
        if store == "etcd" and shutil.which("etcd") is None:
            tell("etcd is not installed: left out")
            continue
        yield from _on(store, nodes, pods, tell)


def _on(store: str, nodes: int, pods: int, tell: Callable[[str], None]) -> Iterator[BenchRow]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        tell(f"{store}: starting {nodes:,} nodes")
        url = stack.enter_context(_etcd(folder)) if store == "etcd" else f"sqlite:{folder / 'store.db'}"
        port = _free_port()
        words = ("-m", "proreus", "up", "--store", url, "--nodes", str(nodes), "--port", str(port))
        token = _token(folder / "tokens")
        own = ("--dir", str(folder / "up"), "--token-file", str(folder / "tokens"))
        process = stack.enter_context(started(*words, *own))
        wait_for(process, lambda: _ready_nodes(port, token) >= nodes)
        plan = PodPlan("127.0.0.1", port, "bench-warm", min(pods, 200), _CLIENTS, token=token)
        _load(plan)
        _loop_held(port, token)
        tell(f"{store}: {pods:,} pods at once")
        at_once = _load(replace(plan, prefix="bench-flood", pods=pods))
        held_at_once = _loop_held(port, token)
        wait_for(process, lambda: _all_started(port, token))
        tell(f"{store}: {STEADY_RATE:.0f} pods per second")
        steady = _load(replace(plan, prefix="bench-steady", pods=min(pods, STEADY_PODS), rate=STEADY_RATE))
        held_steady = _loop_held(port, token)
        memory = _peak_memory(process.pid)
    what = f"{store}, {nodes:,} nodes, {pods:,} pods at once"
    yield claim(f"{what}: bound", "pods/s", pods / at_once.seconds, goal=PODS_PER_SECOND, peer=KUBERNETES)
    yield claim(f"{what}: created", "pods/s", pods / at_once.creating)
    yield claim(f"{what}: request to bound, p99", "s", at_once.p99, better="lower")
    yield claim(f"{what}: longest the loop was held", "ms", 1e3 * held_at_once, better="lower")
    at_rate = f"{store}, {STEADY_RATE:.0f} pods/s"
    for share, value in (("p50", steady.p50), ("p99", steady.p99)):
        yield claim(f"{at_rate}: request to bound, {share}", "ms", 1e3 * value, better="lower")
    yield claim(f"{at_rate}: longest the loop was held", "ms", 1e3 * held_steady, better="lower")
    yield claim(f"{store}: memory of the engine at its largest", "MB", memory / 1e6, better="lower")


def _token(path: Path) -> str:
    """Of an admin, in a file of its own."""
    token = secrets.token_hex(16)
    path.touch(mode=0o600)
    path.write_text(f"{token},bench,admin\n")
    return token


def _load(plan: PodPlan) -> PodResult:
    words = [sys.executable, "-m", "proreus.bench.engine_load"]
    done = subprocess.run(words, input=json.dumps(asdict(plan)), capture_output=True, text=True, check=False)
    if done.returncode:
        raise WorkError(f"the load generator failed: {done.stderr.strip()[-500:]}")
    result = PodResult(**json.loads(done.stdout))
    if result.failures or result.bound < plan.pods:
        raise WorkError(f"of {plan.pods:,} pods {result.failures} were refused, {result.bound:,} bound")
    return result


@contextlib.contextmanager
def _etcd(folder: Path) -> Iterator[str]:
    """One member on loopback, as its URL."""
    client, peer = _free_port(), _free_port()
    urls = [f"http://127.0.0.1:{port}" for port in (client, peer)]
    words = [
        "etcd",
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={urls[0]}",
        f"--advertise-client-urls={urls[0]}",
        f"--listen-peer-urls={urls[1]}",
        f"--initial-advertise-peer-urls={urls[1]}",
        f"--initial-cluster=default={urls[1]}",
    ]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(process, lambda: _answers(f"{urls[0]}/health"))
        yield f"etcd://127.0.0.1:{client}"
    finally:
        process.terminate()
        process.wait(30)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2.0) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _asked(port: int, token: str, path: str) -> Any:
    headers = {"authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=30.0) as answer:
        return json.load(answer)


def _loop_held(port: int, token: str) -> float:
    """Seconds that nobody was answered, at the longest, since this was last asked."""
    told = _asked(port, token, "/v1/metrics?format=json")
    return float(told["proreus_api_loop_held_seconds"]["samples"][0]["value"])


def _ready_nodes(port: int, token: str) -> int:
    """Nodes that are there and say that they are ready; 0 while nobody answers."""
    try:
        items = _asked(port, token, "/api/v1/nodes")["items"]
    except (urllib.error.URLError, OSError):
        time.sleep(0.3)
        return 0
    return sum(
        any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in item["status"].get("conditions", ())
        )
        for item in items
    )


def _all_started(port: int, token: str) -> bool:
    """Whether no pod is still on its way: what one part leaves behind is not the next one's load."""
    path = "/api/v1/namespaces/default/pods?limit=1&fieldSelector=status.phase%3DPending"
    return not _asked(port, token, path)["items"]


def _peak_memory(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return 1024.0 * float(line.split()[1])
    raise WorkError("the engine's memory cannot be read")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
