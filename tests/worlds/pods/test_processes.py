"""Same seed, same log, in another process: neither hash order nor what ran before matters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import hashlib, sys
from tests.oracles.kube_builders import app, near, node, pod, runs
from proreus.worlds.pods.state.compile import compile_workload
from proreus.worlds.pods.play import simulate
from proreus.model.node import HOSTNAME, ZONE
from proreus.model.pod import PodAffinity, SpreadConstraint
from proreus.model.workload import Workload
from proreus.worlds.pods.policies.catalogue import POLICIES, make_policy

models = ("T4", "A100", "V100")
nodes = tuple(
    node(f"n{i}", cpu=2000 + 1000 * (i % 3), zone=f"z{i % 2}", gpus=i % 4, gpu_model=models[i % 3],
         extended={"x": 1, "y": 2}, network=100 * i)
    for i in range(8)
)
apart = PodAffinity(required=(near("web", HOSTNAME),), preferred=((5, near("db", ZONE)),))
spread = (SpreadConstraint(app("db"), ZONE), SpreadConstraint(app("db"), HOSTNAME, hard=False))
pods = []
for i in range(40):
    kind = i % 5
    if kind == 0:
        pods.append(runs(f"p{i}", "web", cpu=500, anti_affinity=apart, arrival=i / 2, priority=i % 3))
    elif kind == 1:
        pods.append(runs(f"p{i}", "db", cpu=700, spread=spread, arrival=i / 2, host_ports=(("", "TCP", i),)))
    else:
        extended = {"xy"[i % 2]: 1}
        pods.append(pod(f"p{i}", cpu=300 * kind, gpu=(1, 100 * kind), arrival=i / 2, extended=extended))
workload = Workload("fixed", nodes, tuple(pods))
compiled = compile_workload(workload)
names = sorted(POLICIES.names, reverse=sys.argv[1] == "reverse")
logs = {name: repr(simulate(compiled, make_policy(name, seed=3)).log) for name in names}
sys.stdout.write(hashlib.sha256(repr(sorted(logs.items())).encode()).hexdigest())
"""


def digest(order: str, hash_seed: str) -> str:
    """Runs every policy, in this order, in a process of its own; returns a digest of all logs."""
    root = Path(__file__).resolve().parents[3]
    paths = [str(root), *sys.path]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, order], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_another_process_another_order_the_same_logs() -> None:
    first = digest("forward", "1")
    assert len(first) == 64
    assert digest("reverse", "2") == first
