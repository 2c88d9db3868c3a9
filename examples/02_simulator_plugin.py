"""Play the k8s simulator's `ppo` plugin against the decision service, over REST and over gRPC.

    pip install -c constraints.txt -e '.[serve]'
    python examples/02_simulator_plugin.py                       # a generated cluster of 50 nodes
    python examples/02_simulator_plugin.py --data DIR --model vector-k8ssim --deterministic
    python examples/02_simulator_plugin.py --data DIR --scenario k8ssim-variant/reordered
    python examples/02_simulator_plugin.py --rest http://127.0.0.1:5000 --grpc 127.0.0.1:50051 --nodes 7

Without --rest and --grpc it starts a service of its own (`proreus serve all`), for a cluster as large as
the case. For every task the plugin sends the k8s simulator's vector and gets an action; the action becomes a
score per node (100, 50, -10, -100), and the simulator places the task by the scores. Both doors must lead
to the same run, task by task; beside it stand the rule `binpack` and the richer call, `/v1/decide`: whoever
knows nodes by name (a plugin does) sends them so, with what they have and what runs there, and a policy of
the catalogue decides (`--policy`). The vector says neither how large a node is nor which one it is, so it
is the second choice: for callers that have nothing but the vector. With --every-pair it asks once for every
task and node, as the original does, some hundred times as often. With --report the plugin also reports
what came of its decisions, as the original does at the end of a session, and the service learns from it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import proreus
from proreus.compare.results import Simulated
from proreus.contract.scenario import Scenario
from proreus.kernels.arrays import F64
from proreus.model.workload import Workload
from proreus.policies.catalogue import AnyPolicy
from proreus.serving.client import GrpcClient, RemotePolicy, RestClient
from proreus.worlds.pods.datasets.volcano import volcano_nodes, volcano_workload
from proreus.worlds.pods.policies.vector.plugin import EveryPair, VolcanoPlugin
from proreus.worlds.pods.scenarios import PodScenario


@dataclass(frozen=True)
class GeneratedCase:
    """Where the tasks come from without the k8s simulator's files: a source of one's own."""

    nodes: int
    name: str = "generated"

    def load(self, seed: int) -> Workload:
        """Tasks as the k8s simulator has them, on so many nodes."""
        return volcano_workload(seed, volcano_nodes(seed, self.nodes))


def main() -> int:
    """Run the case over both doors and by the rule; 0 when both doors agree."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder that holds k8ssim/; without it a case is generated")
    parser.add_argument("--scenario", default="k8ssim/large", help="of that folder")
    parser.add_argument("--every-pair", action="store_true", help="one question for every task and node")
    parser.add_argument(
        "--askers", type=int, default=16, help="questions under way at once, with --every-pair"
    )
    parser.add_argument("--nodes", type=int, default=50, help="of a generated cluster")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", default="", help="of a service that is started here; see proreus serve")
    parser.add_argument("--policy", default="learned", help="behind /v1/decide of a service started here")
    parser.add_argument("--rest", default="", help="address of a running service, http://host:port")
    parser.add_argument("--grpc", default="", help="its gRPC address, host:port")
    parser.add_argument("--deterministic", action="store_true", help="take the best action, do not draw one")
    parser.add_argument("--report", action="store_true", help="report the decisions and their rewards")
    arguments = parser.parse_args()
    case, seed = _case(arguments), arguments.seed
    workload = case.load(seed).workload
    nodes = len(workload.nodes)
    print(f"{len(workload.pods)} tasks on {nodes} nodes")
    with contextlib.ExitStack() as stack:
        rest_url, grpc_address = arguments.rest, arguments.grpc
        if not (rest_url and grpc_address):
            rest_url, grpc_address = stack.enter_context(_service(nodes, arguments.model, arguments.policy))
        rest = stack.enter_context(RestClient(rest_url))
        grpc = stack.enter_context(GrpcClient(grpc_address))
        asked = {"deterministic": True} if arguments.deterministic else {}
        seen: list[tuple[F64, int]] = []

        def over_grpc(state: F64) -> int:
            return grpc.predict(state, **asked).action

        def over_rest(state: F64) -> int:
            action = rest.predict(state, **asked).action
            seen.append((state.copy(), action))
            return action

        pairs = EveryPair(arguments.askers) if arguments.every_pair else None
        outcomes = {
            "plugin over REST": _timed(case, seed, VolcanoPlugin("rest", over_rest, every_pair=pairs)),
            "plugin over gRPC": _timed(case, seed, VolcanoPlugin("grpc", over_grpc, every_pair=pairs)),
            "named fields": _timed(case, seed, RemotePolicy(rest, "decide")),
            "binpack": _timed(case, seed, "binpack"),
        }
        print(f"answered by version {rest.health().model_version}")
        if arguments.report:
            _report(rest, seen, outcomes["plugin over REST"])
    same = _placed(outcomes["plugin over REST"]) == _placed(outcomes["plugin over gRPC"])
    print(f"both doors placed every task alike: {'yes' if same else 'NO'}")
    return 0 if same else 1


def _case(arguments: argparse.Namespace) -> Scenario:
    if arguments.data is not None:
        return proreus.make_scenario("pods", arguments.scenario, data=arguments.data)
    return PodScenario(GeneratedCase(arguments.nodes))


def _timed(case: Scenario, seed: int, policy: AnyPolicy | str) -> Simulated:
    begin = time.perf_counter()
    simulated = proreus.simulate("pods", case, policy, seed=seed)
    seconds = time.perf_counter() - begin
    mean, makespan = simulated.measures["jct_mean"], simulated.measures["makespan"]
    summary = f"mean completion {mean:6.2f} s, makespan {makespan:6.1f} s"
    print(f"{simulated.policy:<8} {summary}   ({seconds:.1f} s to run)")
    return simulated


def _placed(simulated: Simulated) -> list[tuple[str, str]]:
    return [(row["pod"], row["node"]) for row in simulated.log]


def _report(client: RestClient, seen: list[tuple[F64, int]], outcome: Simulated) -> None:
    """One reward for all steps of the session, as the original plugin gives it: quicker is better."""
    reward = 10.0 * math.exp(-outcome.measures["jct_mean"] / 100.0)
    for first in range(0, len(seen), 512):
        steps = seen[first : first + 512]
        columns = (
            [action for _, action in steps],
            [reward] * len(steps),
            [False] * (len(steps) - 1) + [True],
        )
        answer = client.update([state for state, _ in steps], columns)
        print(f"reported {answer.logged} steps ({answer.learnable} to learn from): {answer.status}")


@contextlib.contextmanager
def _service(nodes: int, model: str, policy: str) -> Iterator[tuple[str, str]]:
    """`proreus serve all` for so many nodes; its addresses."""
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready.json"
        words = ["serve", "all", "--port", "0", "--grpc_port", "0", "--store", f"{folder}/models"]
        words += ["--state_dim", str(2 * nodes), "--action_dim", str(2 * nodes + 2), "--json", str(ready)]
        words += ["--policy", policy, *(("--model", model) if model else ())]
        process = subprocess.Popen([sys.executable, "-m", "proreus", *words])
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the service ends with who started it
        try:
            while not ready.exists():
                if process.poll() is not None:
                    raise SystemExit("the service did not start")
                time.sleep(0.05)
            about = json.loads(ready.read_bytes())
            yield f"http://127.0.0.1:{about['rest']['port']}", f"127.0.0.1:{about['grpc']['port']}"
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
