"""`proreus bench serve`: the decision service beside a minimal Flask service over an eager torch network.

Every server is a process of its own, started as its users start it, and loaded by the same generator
(`load`), also a process of its own: closed loops over plain connections, with requests made beforehand. For
gRPC the generator writes HTTP/2 frames itself, since a gRPC library would cost more than the server. The
Flask service speaks HTTP alone, closes its connection after every answer (werkzeug's way), and is given new
ones.

What is measured: requests per second of 64 clients at 14 inputs, and the CPU that a server spends on each;
answer times of one client at four cluster sizes, and the model's own time apart, taken in this process
without any wire; states per second through the batch call in bytes. The servers take turns, and the best of
four rounds counts, for the peer as for ours: what else the machine does at the time is nobody's merit or
fault.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from proreus.bench.load import LoadPlan, LoadResult
from proreus.bench.server_process import START_SECONDS, started, wait_for
from proreus.contract.benchmark import BenchRow, claim
from proreus.model.errors import UsageError, WorkError
from proreus.worlds.pods.policies.vector.model import PRETRAINED_VECTOR, draw_of, load_vector_model

CLIENTS = 64
TIMES_FLASK = 10.0
"""Requests per second of either door, against Flask."""
SIZES = (7, 100, 1_000, 5_000)
MODEL_GOALS = {100: 10.0, 5_000: 250.0}
"""Microseconds of the model alone, at most, by nodes."""
P99_NODES, P99_GOAL = 100, 2.0
"""Milliseconds of an answer to one client."""
BATCH, BATCH_GOAL = 20_000, 500_000.0
"""States of a batch call, and states per second."""
_ROUNDS, _SECONDS, _LATENCY_SECONDS, _MODEL_SECONDS = 4, 1.5, 0.6, 1.0
_PREDICT = "/scheduler.Scheduler/Predict"


def bench_serve(data: Path | None, tell: Callable[[str], None]) -> Iterator[BenchRow]:
    """Rates, answer times and batches; needs no data, and the extra `serve`, flask and torch."""
    del data
    try:
        import flask  # noqa: F401
        import torch  # noqa: F401

        import proreus.serving.service  # noqa: F401
    except ImportError as error:
        raise UsageError(f"bench serve needs the extras serve and learn, and flask: {error}") from error
    with tempfile.TemporaryDirectory() as folder:
        yield from _rates(Path(folder), tell)
        yield from _latencies(Path(folder), tell)


def _rates(folder: Path, tell: Callable[[str], None]) -> Iterator[BenchRow]:
    nodes = SIZES[0]
    with _service(folder, nodes) as ports, _flask(nodes) as (flask_port, flask_pid):
        plans = {
            "flask": _plan(flask_port, nodes),
            "rest": _plan(ports["rest"], nodes),
            "grpc": _plan(ports["grpc"], nodes, grpc=True),
        }
        pids = {"flask": flask_pid, "rest": ports["pid"], "grpc": ports["pid"]}
        plans["grpcio"] = replace(plans["grpc"], protocol="grpcio")
        pids["grpcio"] = ports["pid"]
        rates: dict[str, list[float]] = {name: [] for name in plans}
        slowest: dict[str, list[float]] = {name: [] for name in plans}
        costs: dict[str, list[float]] = {name: [] for name in plans}
        for number in range(_ROUNDS):
            for name, plan in plans.items():
                tell(f"{CLIENTS} clients, round {number + 1} of {_ROUNDS}: {name}")
                before = _cpu_seconds(pids[name])
                result = _load(plan)
                rates[name].append(result.rate)
                slowest[name].append(1e3 * result.p99)
                costs[name].append((_cpu_seconds(pids[name]) - before) / (result.requests + result.warmed))
        flask = max(rates["flask"])
        for name in ("rest", "grpc"):
            yield claim(
                f"{name}, {CLIENTS} clients, {2 * nodes} inputs",
                "requests/s",
                max(rates[name]),
                goal=TIMES_FLASK * flask,
                peer=(flask, "Flask + eager torch"),
            )
        yield from _beside_rest(rates, slowest)
        for name in ("rest", "grpc"):
            yield claim(
                f"{name}, {CLIENTS} clients, CPU of the server per request",
                "us",
                1e6 * statistics.median(costs[name]),
                better="lower",
                peer=(1e6 * statistics.median(costs["flask"]), "Flask + eager torch"),
            )
        tell("batches")
        batch = _batch_plan(ports["rest"], nodes)
        yield claim(
            f"rest, batches of {BATCH:,} in bytes, {2 * nodes} inputs",
            "states/s",
            max(_load(batch).rate for _ in range(_ROUNDS)) * BATCH,
            goal=BATCH_GOAL,
        )
        tell("one client: Flask")
        flask_alone = _quietest(_alone(plans["flask"]))
        yield from _answer_times(ports, nodes, tell, flask_alone)


def _beside_rest(rates: dict[str, list[float]], slowest: dict[str, list[float]]) -> Iterator[BenchRow]:
    """gRPC is no slower than REST; by grpcio's own client it is as fast as that client."""
    rest, p99 = max(rates["rest"]), min(slowest["rest"])
    what = f"grpc beside rest, {CLIENTS} clients"
    yield claim(what, "requests/s", max(rates["grpc"]), goal=rest, peer=(rest, "rest, same run"))
    yield claim(
        f"{what}, p99", "ms", min(slowest["grpc"]), goal=p99, better="lower", peer=(p99, "rest, same run")
    )
    yield claim(
        f"grpc by grpcio's client, {CLIENTS} calls at once",
        "requests/s",
        max(rates["grpcio"]),
        peer=(rest, "rest, same run"),
    )


def _latencies(folder: Path, tell: Callable[[str], None]) -> Iterator[BenchRow]:
    for nodes in SIZES[1:]:
        tell(f"{nodes} nodes: starting")
        with _service(folder, nodes) as ports:
            yield from _answer_times(ports, nodes, tell, None)
    for nodes in SIZES:
        tell(f"{nodes} nodes: the model alone")
        p50, p99 = _model_alone(nodes)
        yield claim(
            f"the model alone, {nodes:,} nodes, p50", "us", p50, goal=MODEL_GOALS.get(nodes), better="lower"
        )
        yield claim(f"the model alone, {nodes:,} nodes, p99", "us", p99, better="lower")


def _answer_times(
    ports: dict[str, int], nodes: int, tell: Callable[[str], None], peer: LoadResult | None
) -> Iterator[BenchRow]:
    """p50 and p99 of one client over both doors."""
    for door in ("rest", "grpc"):
        tell(f"{nodes} nodes, one client: {door}")
        result = _quietest(_alone(_plan(ports[door], nodes, grpc=door == "grpc")))
        name = "Flask + eager torch"
        for what, value, other in (
            ("p50", result.p50, None if peer is None else (peer.p50 * 1e3, name)),
            ("p99", result.p99, None if peer is None else (peer.p99 * 1e3, name)),
        ):
            yield claim(
                f"{door}, one client, {nodes:,} nodes, {what}",
                "ms",
                value * 1e3,
                goal=P99_GOAL if (what, nodes) == ("p99", P99_NODES) else None,
                better="lower",
                peer=other,
            )


def _model_alone(nodes: int) -> tuple[float, float]:
    """Microseconds of a decision, p50 and p99, state by state as the service decides them."""
    model = load_vector_model(PRETRAINED_VECTOR)
    states = _states(nodes)
    draws = [draw_of(0, 1, state) for state in states]
    times: list[float] = []
    until = time.perf_counter() + _MODEL_SECONDS
    while time.perf_counter() < until:
        for state, draw in zip(states, draws, strict=True):
            begin = time.perf_counter()
            model.decide(state, 2 * nodes + 2, None, draw)
            times.append(time.perf_counter() - begin)
    times.sort()
    return times[len(times) // 2] * 1e6, times[int(len(times) * 0.99)] * 1e6


def _states(nodes: int) -> list[np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Different states, so that nothing can be answered from memory."""
    return list(np.random.default_rng(nodes).random((61, 2 * nodes)))


def _plan(port: int, nodes: int, *, grpc: bool = False) -> LoadPlan:
    from proreus.serving.protos import scheduler_pb2

    bodies = tuple(
        base64.b64encode(
            scheduler_pb2.StateRequest(state=state.tolist()).SerializeToString()
            if grpc
            else json.dumps({"state": state.tolist()}).encode()
        ).decode()
        for state in _states(nodes)
    )
    return LoadPlan(
        "127.0.0.1",
        port,
        _PREDICT if grpc else "/predict",
        bodies,
        protocol="grpc" if grpc else "http1",
        clients=CLIENTS,
        seconds=_SECONDS,
    )


def _alone(plan: LoadPlan) -> LoadPlan:
    return LoadPlan(**{**asdict(plan), "clients": 1, "seconds": _LATENCY_SECONDS})


def _batch_plan(port: int, nodes: int) -> LoadPlan:
    states = np.random.default_rng(0).random((BATCH, 2 * nodes))
    return LoadPlan(
        "127.0.0.1",
        port,
        "/v1/predict/batch",
        (base64.b64encode(states.tobytes()).decode(),),
        media_type="application/octet-stream",
        clients=2,
        seconds=_SECONDS,
    )


def _quietest(plan: LoadPlan) -> LoadResult:
    """Of several rounds the one that the machine disturbed least."""
    return min((_load(plan) for _ in range(_ROUNDS)), key=lambda result: result.p99)


def _load(plan: LoadPlan) -> LoadResult:
    """Run the generator in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "proreus.bench.load"],
        input=json.dumps(asdict(plan)).encode(),
        stdout=subprocess.PIPE,
        timeout=plan.seconds + START_SECONDS,
        check=False,
    )
    if done.returncode:
        raise WorkError(f"the generator of load failed on {plan.path}")
    result = LoadResult(**json.loads(done.stdout))
    if result.failures or not result.requests:
        raise WorkError(f"{plan.path}: {result.failures} of {result.requests} requests were not answered")
    return result


@contextlib.contextmanager
def _service(folder: Path, nodes: int) -> Iterator[dict[str, int]]:
    """`proreus serve all`, as a user would start it; the ports, and the process."""
    ready = folder / f"ready-{nodes}.json"
    words = ["serve", "all", "--port", "0", "--grpc_port", "0", "--json", str(ready), "--no-learn"]
    words += ["--state_dim", str(2 * nodes), "--action_dim", str(2 * nodes + 2)]
    with started("-m", "proreus", *words, "--store", str(folder / f"store-{nodes}")) as process:
        wait_for(process, ready.exists)
        about = json.loads(ready.read_bytes())
        yield {"pid": process.pid, **{door: int(about[door]["port"]) for door in ("rest", "grpc")}}


@contextlib.contextmanager
def _flask(nodes: int) -> Iterator[tuple[int, int]]:
    """The peer; its port and process."""
    port = _free_port()
    sizes = (str(2 * nodes), str(2 * nodes + 2))
    with started("-m", "proreus.bench.serve_peer", str(port), *sizes) as process:

        def answers() -> bool:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
                    return True
            except OSError:
                return False

        wait_for(process, answers)
        yield port, process.pid


def _cpu_seconds(pid: int) -> float:
    """CPU that a process has used so far, its threads included; unknown (NaN) where there is no /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return math.nan
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
