"""The k8s simulator's case through the service, over both doors, against binpack's committed result."""

from __future__ import annotations

from pathlib import Path

import pytest

from proreus.serving.checks import Dimensions
from proreus.serving.client.grpc import GrpcClient
from proreus.serving.client.rest import RestClient
from proreus.serving.core import ServiceOptions
from proreus.serving.running import RunningService, ServingOptions
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.vector.plugin import VolcanoPlugin
from proreus.worlds.pods.state.compile import compile_workload
from proreus.worlds.pods.traces.datasets import load
from tests.real_data import real_data

BINPACK_MEAN, BINPACK_MAKESPAN = 48.06, 54.0


@pytest.mark.golden
@pytest.mark.parametrize("deterministic", [True, False])
def test_the_served_model_is_no_later_than_binpack_over_either_door(
    tmp_path: Path, deterministic: bool
) -> None:
    case = compile_workload(load("k8ssim/large", real_data("k8ssim"), seed=0))
    nodes = len(case.workload.nodes)
    options = ServiceOptions(
        Dimensions(2 * nodes, 2 * nodes + 2), deterministic=deterministic, deadline_seconds=60.0
    )
    running = RunningService(ServingOptions(options, tmp_path, "vector-k8ssim", policy="first_fit"))
    try:
        rest_port, grpc_port = running.open_rest("127.0.0.1", 0), running.open_grpc("127.0.0.1", 0)
        with (
            RestClient(f"http://127.0.0.1:{rest_port}") as rest,
            GrpcClient(f"127.0.0.1:{grpc_port}") as grpc,
        ):
            over_rest = simulate(case, VolcanoPlugin("rest", lambda state: rest.predict(state).action))
            over_grpc = simulate(case, VolcanoPlugin("grpc", grpc.act))
    finally:
        running.stop(1.0)
    assert over_rest.log == over_grpc.log
    assert over_rest.measures["jct_mean"] <= BINPACK_MEAN
    assert over_rest.measures["makespan"] <= BINPACK_MAKESPAN
