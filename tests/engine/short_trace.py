"""A short real trace: `proreus up` with simulated nodes of four GPUs, where pods come and go for minutes.

    PYTHONPATH=src python -m tests.engine.short_trace DIR
    proreus train pods --algo ddqn --format engine --from DIR --reward completion --seed 1 --out runs/ddqn-1

DIR is then the folder of a cluster that was ended. Pods as in `days`, drawn with one seed, but in real time
and by the real process: more come than fit, so that some wait.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from pathlib import Path

import httpx

from tests.cli.cluster.clusters import started
from tests.engine.days import NODES, gpu_pod

_SEED = 1
_LEAVE_SECONDS = 8.0
"""The recorder writes every five."""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="short_trace", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pods", type=int, default=120)
    parser.add_argument("--seconds", type=float, default=180.0)
    asked = parser.parse_args(arguments)
    draw = random.Random(_SEED)
    gaps = [draw.expovariate(asked.pods / asked.seconds) for _ in range(asked.pods)]
    words = ("--nodes", str(NODES), "--node-cpu", "32", "--node-memory", "64Gi", "--node-gpus", "4")
    with started(asked.folder, *words, "--quiet") as cluster:
        with httpx.Client(base_url=cluster.ready["api"], headers=cluster.headers) as client:
            for number, gap in enumerate(gaps):
                time.sleep(gap)
                pod = gpu_pod(f"pod-{number}", draw)
                client.post("/api/v1/namespaces/default/pods", json=pod).raise_for_status()
            time.sleep(_LEAVE_SECONDS)
        code, said = cluster.end(signal.SIGTERM)
    sys.stdout.write(f"{asked.pods} pods in {sum(gaps):.0f} s; the cluster ended with {code}\n{said}")


if __name__ == "__main__":
    main(sys.argv[1:])
