"""The part of `proreus bench live` that goes over the wire: a service keeps the cluster and hears changes.

One client over one connection: with each question a pod has left and another has come, and each class was
asked about once before. The service is a process of its own. Times are those of a clock, so the quietest of a
few rounds counts.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from proreus.bench.live_cluster import GPU_EVERY, GeneratedCluster
from proreus.bench.server_process import started, wait_for
from proreus.contract.benchmark import BenchRow, claim
from proreus.model.errors import UsageError
from proreus.model.pod import Pod

WIRE_GOAL = 2.0
"""Milliseconds of a question with changes, at the 99th percentile."""
_ROUNDS, _QUESTIONS, _AT_ONCE = 4, 500, 2_000


def wire_rows(
    generated: GeneratedCluster, pods: Sequence[Pod], policies: Sequence[str], tell: Callable[[str], None]
) -> Iterator[BenchRow]:
    """Questions to a service that keeps the cluster with these pods, under each policy."""
    try:
        import proreus.serving.service  # noqa: F401
    except ImportError as error:
        raise UsageError(f"bench live needs the extra serve: {error}") from error
    with tempfile.TemporaryDirectory() as folder:
        for policy in policies:
            yield from _asked(Path(folder) / policy, generated, pods, (policy, tell))


def _asked(
    folder: Path, generated: GeneratedCluster, pods: Sequence[Pod], how: tuple[str, Callable[[str], None]]
) -> Iterator[BenchRow]:
    from proreus.serving.client import AddPod, ClientOptions, KeptCluster, RemovePod, RestClient
    from proreus.serving.client.remote_policy import node_wire, pod_wire
    from proreus.serving.cluster_api.request import DecideRequest

    policy, tell = how
    folder.mkdir()
    ready = folder / "ready.json"
    words = ["serve", "rest", "--port", "0", "--json", str(ready), "--no-learn", "--policy", policy]
    words += ["--state_dim", "2", "--action_dim", "4"]  # of /predict, which nobody asks here
    tell(f"a service with {policy}")
    with started("-m", "proreus", *words, "--store", str(folder / "store")) as process:
        wait_for(process, ready.exists)
        port = json.loads(ready.read_bytes())["rest"]["port"]
        with RestClient(f"http://127.0.0.1:{port}", ClientOptions(timeout=120.0)) as client:
            nodes = [node_wire(node, ()) for node in generated.nodes]
            wires = [pod_wire(pod) for pod in pods]
            begin = time.perf_counter()
            whole = client.decide(DecideRequest(wires[0], nodes, explain=False))
            described = time.perf_counter() - begin
            assert whole.node is not None
            kept = KeptCluster(client, lambda: (nodes, []))
            kept.decide(None)
            rooms = [generated.nodes[n].name for n in range(len(nodes)) if n % GPU_EVERY]
            plain = [wire for wire in wires if wire.gpu is None]
            tell(f"telling the service of {len(plain):,} pods")
            for first in range(0, len(plain), _AT_ONCE):
                batch = plain[first : first + _AT_ONCE]
                kept.note(*(AddPod(pod, rooms[(first + k) % len(rooms)]) for k, pod in enumerate(batch)))
                kept.decide(None)
            for number, spec in enumerate(generated.specs):  # as within the process: of known classes
                kept.decide(pod_wire(Pod(f"asked-{number}", spec)))
            tell(f"questions to {policy} over the wire")
            rounds = []
            for number in range(_ROUNDS):
                taken = []
                for k in range(_QUESTIONS):
                    at = number * _QUESTIONS + k
                    leaving = plain[at % len(plain)]
                    kept.note(RemovePod(leaving.name), AddPod(leaving, rooms[at % len(rooms)]))
                    begin = time.perf_counter()
                    kept.decide(wires[at % len(wires)])
                    taken.append(time.perf_counter() - begin)
                rounds.append(np.percentile(np.array(taken) * 1e3, (50, 99)).tolist())
    peer = (1e3 * described, "nodes described anew, no pods")
    middle, late = min(rounds, key=lambda pair: pair[1])
    yield claim(f"/v1/decide, {policy}, two changes, median", "ms", middle, better="lower", peer=peer)
    yield claim(
        f"/v1/decide, {policy}, two changes, 99 %", "ms", late, goal=WIRE_GOAL, better="lower", peer=peer
    )
