"""Document 000's own commands, calls and messages, as its reader tries them: see docs/documents/000.md."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from proreus.cli.main import main
from proreus.serving.models.version_store import ModelStore
from proreus.serving.protos import scheduler_pb2 as scheduler
from proreus.worlds.pods.datasets.k8ssim import read_nodes
from proreus.worlds.pods.policies.vector.model import VectorMLP, load_vector_model
from tests.serving.door_cases import ask
from tests.serving.service_process import ServiceProcess

HTTP_COMMAND = "python scheduler_ppo_service.py --host 0.0.0.0 --port 5000 --state_dim 14 --action_dim 16"
GRPC_COMMAND = "python scheduler_ppo_grpc.py --host [::] --port 50051 --state_dim 14 --action_dim 16"
DOORS = {"scheduler_ppo_service.py": "rest", "scheduler_ppo_grpc.py": "grpc"}
STATE = [0.1, 0.2, 0.6, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
PREDICT = "/scheduler.Scheduler/Predict"


def started(folder: Path, command: str, *more: str) -> ServiceProcess:
    """The document's command, on a free port: its script's name says which door."""
    _, script, *words = shlex.split(command)
    at = words.index("--port")
    return ServiceProcess(
        folder, DOORS[script], *words[:at], *words[at + 2 :], "--policy", "first_fit", *more
    )


@pytest.fixture(scope="module")
def as_written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServiceProcess, Path]]:
    folder = tmp_path_factory.mktemp("rest")
    service = started(folder, HTTP_COMMAND)
    yield service, folder
    service.kill()


def an_update(steps: int = 4) -> dict[str, Any]:
    return {
        "states": [STATE] * steps,
        "actions": [0] * steps,
        "rewards": [1.0] * steps,
        "dones": [False] * (steps - 1) + [True],
    }


def test_the_http_command_decides_and_says_at_start_what_learning_needs(
    as_written: tuple[ServiceProcess, Path],
) -> None:
    service, folder = as_written
    answer = ask(service.rest, "/predict", {"state": STATE})
    assert answer.status == 200 and 0 <= answer.json["action"] < 16
    assert ask(service.rest, "/health").json["status"] == "ok"
    notes = [line for line in (folder / "stderr.txt").read_text().splitlines() if "never learns" in line]
    assert len(notes) == 1 and "--token-file" in notes[0] and "--anonymous-updates" in notes[0]


def test_each_refused_update_says_the_same(as_written: tuple[ServiceProcess, Path]) -> None:
    service, _ = as_written
    for _ in range(2):
        refused = ask(service.rest, "/update", an_update())
        assert refused.status == 403
        said = refused.body.decode()
        assert "--token-file" in said and "--anonymous-updates" in said and "\n" not in said.strip()


def test_with_what_it_said_the_command_learns(tmp_path: Path) -> None:
    service = started(tmp_path, HTTP_COMMAND, "--anonymous-updates", "--store", "store")
    try:
        assert "never learns" not in (tmp_path / "stderr.txt").read_text()
        assert ask(service.rest, "/update", an_update()).json["logged"] == 4
    finally:
        service.kill()


def test_the_grpc_command_answers_the_documents_message(tmp_path: Path) -> None:
    service = started(tmp_path, GRPC_COMMAND, "--no-learn")
    try:
        with grpc.insecure_channel(f"localhost:{service.grpc}") as channel:
            data = scheduler.StateRequest(state=STATE).SerializeToString()
            answer = channel.unary_unary(PREDICT)(data, timeout=60)
            assert 0 <= scheduler.ActionResponse.FromString(answer).action < 16
    finally:
        assert service.end() == 0


def test_a_reward_for_node_3_reported_over_rest_is_published_as_a_version_that_knows_nodes(
    tmp_path: Path,
) -> None:
    """Over the wire, as the document's client does it: predict, report what came of it, ask again."""
    service = started(tmp_path, HTTP_COMMAND, "--anonymous-updates", "--store", "store")
    try:
        with futures.ThreadPoolExecutor(8) as pool:
            deadline = time.monotonic() + 120
            round_number = 0
            while time.monotonic() < deadline and ask(service.rest, "/health").json["model_version"] == 1:
                states = [[(k * 7 + i * 3 + round_number) % 10 / 11 for i in range(14)] for k in range(64)]
                answers = list(pool.map(lambda s: ask(service.rest, "/predict", {"state": s}).json, states))
                actions = [answer["action"] for answer in answers]
                report = {
                    "states": states,
                    "actions": actions,
                    "rewards": [float(action == 3) for action in actions],
                    "dones": [True] * 64,
                }
                assert ask(service.rest, "/update", report).json["learnable"] == 64
                round_number += 1
                time.sleep(0.3)
        assert ask(service.rest, "/health").json["model_version"] > 1
        model = ModelStore(tmp_path / "store").load("vector")
        assert model.tensors["memory"].shape[0] == 7
    finally:
        service.kill()


def test_the_plain_network_of_the_document_can_be_trained_for_a_cluster(tmp_path: Path) -> None:
    nodes = Path(__file__).parents[1] / "fixtures" / "sim_nodes.yaml"
    words = ["--nodes", str(nodes), "--kind", "vector-mlp", "--updates", "1", "--episodes", "1", "--quiet"]
    assert main(["models", "train", *words, "--out", str(tmp_path / "run"), "--device", "auto"]) == 0
    model = load_vector_model(tmp_path / "run" / "best")
    assert isinstance(model, VectorMLP) and model.actions == 2 * len(read_nodes(nodes)) + 2
    card = json.loads((tmp_path / "run" / "best" / "card.json").read_text())
    assert card["kind"] == "vector-mlp"


def test_the_plain_network_needs_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "train", "--kind", "vector-mlp", "--out", str(tmp_path / "run")]) == 2
    assert "--nodes" in capsys.readouterr().err


def test_a_gpu_that_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    sizes = ["--state_dim", "14", "--action_dim", "16", "--store", str(tmp_path / "store")]
    assert main(["serve", "rest", *sizes, "--device", "cuda"]) == 2
    assert "no CUDA device here" in capsys.readouterr().err.splitlines()[-1]
    assert main(["models", "train", "--device", "cuda", "--out", str(tmp_path / "run")]) == 2
    assert "no CUDA device here" in capsys.readouterr().err.splitlines()[-1]
