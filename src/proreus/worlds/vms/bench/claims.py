"""`proreus bench vms`: how fast the world of virtual machines steps, beside a plain Python agent loop.

Ours is the batched environment as a learner uses it: every step shows all lanes' observations, requests and
masks to Python, which answers with the first legal action of each. The peer does the same for one environment
of objects. Both are counted in steps per CPU-second, and place the same machines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from proreus.contract.benchmark import BenchRow, claim
from proreus.data.catalogue import files_of, holds
from proreus.model.errors import WorkError
from proreus.worlds.vms.bench.peer import PeerEnv, peer_rate
from proreus.worlds.vms.datasets.catalogue import DATASETS
from proreus.worlds.vms.datasets.generator import generate_vms
from proreus.worlds.vms.datasets.huawei import read_trace
from proreus.worlds.vms.model import VmTrace
from proreus.worlds.vms.play import play_runs
from proreus.worlds.vms.policies.catalogue import make_vm_policy
from proreus.worlds.vms.simulation.columns import VmWork
from proreus.worlds.vms.simulation.runs import planned_runs
from proreus.worlds.vms.simulation.world import SCENARIOS, compile_trace, with_servers
from proreus.worlds.vms.training.lanes import BatchedVms, BatchSettings

GOAL = 2_600_000.0
"""Steps per CPU-second at 100 servers: 1,000 times the best that VMAgent's agent loop was seen to do."""
TIMES = 1_000.0
"""How many times the peer of the same run."""
SIZES = (5, 20, 50, 100, 500)
_LANES = 256
_RUN = 2_000
_REPEATS = 5
_PEER_REPEATS = 2
_STARTS = (1_000, 9_999)


def bench_vms(data: Path | None, tell: Callable[[str], None]) -> Iterator[BenchRow]:
    """The rows, one by one as they are measured; `tell` hears what is going on."""
    real = holds(DATASETS, "huawei", data)
    trace = read_trace(files_of(DATASETS, "huawei", data)[0]) if real else generate_vms(40_000, 0)
    source = "Huawei-East-1" if real else "generated machines"
    double = SCENARIOS["recovering-large"].double
    work = compile_trace(trace, double)
    cost = {}
    for servers in SIZES:
        tell(f"batched environment, {servers} servers")
        cost[servers] = 1.0 / batched_rate(work, servers)
    _check_same_choices(trace, work, tell)
    tell("plain Python agent loop, 100 servers")
    env = PeerEnv(trace, double, 100)
    peer = max(peer_rate(env, _drawn(100), _RUN)[0] for _ in range(_PEER_REPEATS))
    what = f"batched environment, 100 servers, {source}"
    yield claim(what, "steps/CPU-s", 1.0 / cost[100], goal=GOAL, peer=(peer, "plain Python agent loop"))
    yield claim(
        "times as fast as the plain Python loop, 100 servers", "x", 1.0 / cost[100] / peer, goal=TIMES
    )
    for servers in SIZES:
        yield claim(f"cost of a step, {servers} servers", "ns", 1e9 * cost[servers], better="lower")
    growth, times = cost[SIZES[-1]] / cost[SIZES[0]], SIZES[-1] / SIZES[0]
    yield claim(
        f"growth of the cost for {times:.0f} times the servers", "x", growth, goal=times, better="lower"
    )
    for name in ("first_fit", "best_fit", "learned"):
        tell(f"{name} inside the kernel, 100 servers")
        yield claim(f"{name} inside the kernel, 100 servers", "decisions/CPU-s", _rule_rate(work, name))


def batched_rate(work: VmWork, servers: int) -> float:
    """The best steps per CPU-second of a few repeats of first fit by mask, as an agent would do it.

    A repeat is as long as a run: empty and full clusters count as often as in a run.
    """
    options = with_servers(SCENARIOS["recovering-large"], servers)
    lanes = _LANES
    batch = BatchedVms(work, options, lanes, BatchSettings(*_STARTS, limit=_RUN))
    steps = batch.reset()
    for _ in range(_RUN // 4):  # the first runs begin together; short ones soon part
        steps = batch.step(steps.avail.argmax(axis=1))
    best = 0.0
    for _ in range(_REPEATS):
        begin = time.process_time()
        for _ in range(_RUN):
            steps = batch.step(steps.avail.argmax(axis=1))
        best = max(best, lanes * _RUN / (time.process_time() - begin))
    return best


def _rule_rate(work: VmWork, name: str) -> float:
    options = with_servers(SCENARIOS["recovering-large"], 100)
    runs = planned_runs(work, options, np.array(_drawn(20)), _RUN)
    rates = []
    for _ in range(3):
        policy = make_vm_policy(name)
        begin = time.process_time()
        figures, _ = play_runs(runs, policy)
        rates.append(sum(run.placed for run in figures) / (time.process_time() - begin))
    return max(rates)


def _check_same_choices(trace: VmTrace, work: VmWork, tell: Callable[[str], None]) -> None:
    """Both sides place as many machines from the same starts."""
    tell("both sides from the same starts, 5 servers")
    starts = _drawn(6)
    _, expected = peer_rate(PeerEnv(trace, SCENARIOS["recovering"].double, 5), starts, 10_000)
    runs = planned_runs(work, SCENARIOS["recovering"], np.array(starts[: len(expected)]))
    figures, _ = play_runs(runs, make_vm_policy("first_fit"))
    if [run.placed for run in figures] != expected:
        raise WorkError("the world and its plain Python peer placed different machines")


def _drawn(count: int) -> list[int]:
    return [int(start) for start in np.random.default_rng(0).integers(*_STARTS, count)]
