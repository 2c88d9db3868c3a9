"""`proreus serve`: the k8s simulator's commands, bad starts, endings."""

from __future__ import annotations

import json
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from proreus.cli.arguments import parse_named
from proreus.cli.main import main
from proreus.cli.serve import DOORS, Security, ServeArguments, check_host
from proreus.httpserver.sockets import listen
from proreus.model.errors import UsageError, WorkError
from proreus.policies.checkpoint import save_checkpoint
from proreus.serving.admission import RequestAdmission
from proreus.serving.client.grpc import GrpcClient
from proreus.serving.client.rest import ClientOptions, RestClient, ServiceError
from proreus.serving.models.version_store import ModelStore
from proreus.serving.server.grpc_server import GrpcServer
from proreus.worlds.pods.policies.vector.model import checkpoint_of
from tests.cli.runner import Ended, assert_refused
from tests.serving.door_cases import Doors, fresh_checkpoint
from tests.serving.service_process import ServiceProcess
from tests.serving.serving_cases import experience_reader
from tests.worlds.pods.vector_models import fresh_mlp

SIZES = ("--state_dim", "6", "--action_dim", "8", "--policy", "first_fit", "--no-learn")


@pytest.mark.parametrize(
    ("words", "host", "port"),
    [
        ("grpc --host [::] --port 50051 --state_dim 14 --action_dim 16", "[::]", 50051),
        ("rest --host 0.0.0.0 --port 5000 --state_dim 14 --action_dim 16", "0.0.0.0", 5000),
        ("all --state-dim 14 --action-dim 16 --stochastic --device auto", "127.0.0.1", None),
    ],
)
def test_document_000s_commands_are_understood(words: str, host: str, port: int | None) -> None:
    door, arguments = parse_named(ServeArguments, "serve", ("door", DOORS), words.split(), "")
    assert door in DOORS
    assert (arguments.host, arguments.port) == (host, port)
    assert (arguments.state_dim, arguments.action_dim) == (14, 16)


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "::", "192.0.2.1", "example.org", ""])
def test_a_wider_host_is_warned_of_loudly(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    check_host(ServeArguments(6, 8, host=host))
    assert "WARNING: anyone who reaches" in capsys.readouterr().err
    with pytest.raises(UsageError, match="--strict"):
        check_host(ServeArguments(6, 8, host=host, security=Security(strict=True)))
    check_host(ServeArguments(6, 8, host=host, security=Security(token_file=Path("token"), strict=True)))
    assert capsys.readouterr().err == ""


def test_a_wider_host_says_what_strangers_may_do(capsys: pytest.CaptureFixture[str]) -> None:
    check_host(ServeArguments(6, 8, host="0.0.0.0"))
    warning, note = capsys.readouterr().err.splitlines()
    assert "teach" not in warning and "--anonymous-updates" in note
    check_host(ServeArguments(6, 8, host="0.0.0.0", security=Security(anonymous_updates=True)))
    (warning,) = capsys.readouterr().err.splitlines()
    assert "teach the model and change its version" in warning


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "localhost", "::1", "[::1]"])
def test_this_machine_is_no_wider_host(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    check_host(ServeArguments(6, 8, host=host, security=Security(strict=True)))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("rest", ("--state-dim", "--action-dim")),
        ("carrier_pigeon --state_dim 6 --action_dim 8", ("unknown door", "carrier_pigeon")),
        ("rest --state_dim 6 --action_dim 9", ("--action_dim 9",)),
        ("rest --state_dim 7 --action_dim 8", ("--state_dim 7", "6 or 8")),
        ("rest --state_dim 6 --action_dim 8 --deterministic --stochastic", ("exclude each other",)),
        ("rest --state_dim 6 --action_dim 8 --port 70000", ("--port 70000",)),
        ("rest --state_dim 6 --action_dim 8 --model nowhere/at/all", ("nowhere/at/all", "card.json")),
        ("rest --state_dim 6 --action_dim 8 --model nobody", ("--model nobody", "known: vector")),
        ("rest --state_dim 6 --action_dim 8 --model nobody@3", ("nobody",)),
        ("rest --state_dim 6 --action_dim 8 --policy kubee", ("unknown policy 'kubee'",)),
        ("rest --state_dim 6 --action_dim 8 --host 0.0.0.0 --strict", ("--strict", "--token-file")),
        ("rest --state_dim 6 --action_dim 8 --host [::] --strict", ("--strict",)),
        ("rest --state_dim 6 --action_dim 8 --tls-cert x.pem", ("come together",)),
        ("rest --state_dim 6 --action_dim 8 --tls-cert x.pem --tls-key y.pem", ("x.pem", "cannot be read")),
        ("rest --state_dim 6 --action_dim 8 --token-file none", ("none", "cannot be read")),
        ("rest --state_dim 6 --action_dim 8 --max-body 5", ("--max_body 5",)),
        ("rest --state_dim 6 --action_dim 8 --deadline-ms 0", ("--deadline_ms",)),
    ],
)
def test_bad_starts_are_one_line_and_exit_2(
    words: str,
    says: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    code = main(["serve", *words.split(), "--store", "store"])
    said = capsys.readouterr()
    errors = "".join(line + "\n" for line in said.err.splitlines() if "loading" not in line)
    assert_refused(Ended(code, said.out, errors), 2, *says)


def test_damaged_and_unfitting_models_are_one_line_and_exit_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fresh_checkpoint(tmp_path / "damaged")
    weights = tmp_path / "damaged" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10] + b"0123456789")
    save_checkpoint(tmp_path / "other", checkpoint_of(fresh_mlp(14, 16, 0), "none"))
    cases = (("./damaged", "does not match the checksum"), ("./other", "14 inputs and 16 actions"))
    for model, says in cases:
        assert main(["serve", "rest", *SIZES, "--model", model, "--store", "store"]) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert error.startswith("proreus: ") and says in error


def test_a_service_process_serves_both_doors_and_drains(tmp_path: Path) -> None:
    fresh_checkpoint(tmp_path / "fresh")
    words = ("--grpc_port", "0", *SIZES, "--model", "fresh/", "--store", "store")
    service = ServiceProcess(tmp_path, "all", *words)
    state = np.linspace(0, 1, 6)
    stop, failures, count = threading.Event(), [], [0]

    def ask() -> None:
        with RestClient(f"http://127.0.0.1:{service.rest}", ClientOptions(retries=0)) as client:
            while not stop.is_set():
                try:
                    answer = client.predict(state)
                    client.update([state], ([answer.action], [float(count[0])], [True]))
                    count[0] += 1
                except ServiceError as error:
                    if error.code != "unreachable":
                        failures.append(error)
                    return

    with (
        RestClient(f"http://127.0.0.1:{service.rest}") as rest,
        GrpcClient(f"127.0.0.1:{service.grpc}") as grpc,
    ):
        assert rest.predict(state) == grpc.predict(state)
    asking = threading.Thread(target=ask)
    asking.start()
    while count[0] < 20:
        time.sleep(0.01)
    assert service.end(signal.SIGTERM) == 0
    stop.set()
    asking.join(30)
    assert failures == []
    # Whatever was acknowledged while it ended is in the log.
    rewards = [
        r for _, x in experience_reader(tmp_path / "store" / "fresh" / "experience").poll() for r in x.rewards
    ]
    assert rewards[: count[0]] == [float(k) for k in range(count[0])]


def test_a_version_that_is_promoted_in_the_store_is_followed_and_a_damaged_one_is_not(tmp_path: Path) -> None:
    fresh_checkpoint(tmp_path / "fresh")
    service = ServiceProcess(tmp_path, "rest", *SIZES, "--model", "fresh/", "--store", "store")
    store = ModelStore(tmp_path / "store")
    second = store.add("fresh", store.checkpoint("fresh", 1), "the same again")
    third = store.add("fresh", store.checkpoint("fresh", 1), "damaged below")
    (tmp_path / "store" / "fresh" / str(third) / "weights.safetensors").write_bytes(b"nothing")
    with RestClient(f"http://127.0.0.1:{service.rest}") as client:
        store.promote("fresh", second)
        deadline = time.monotonic() + 60
        while client.health().model_version != second and time.monotonic() < deadline:
            time.sleep(0.05)
        assert client.predict(np.zeros(6)).model_version == second
        with pytest.raises(ServiceError) as caught:
            client.promote(third)
        assert caught.value.code == "conflict" and "version 2 keeps serving" in str(caught.value)
        # Even where the store itself points at a damaged version, the last good one keeps serving.
        (tmp_path / "store" / "fresh" / "current").write_text(json.dumps({"live": third, "before": [1, 2]}))
        time.sleep(1.2)
        assert client.predict(np.zeros(6)).model_version == second
        (tmp_path / "store" / "fresh" / "current").write_text(json.dumps({"live": second, "before": [1]}))
        assert client.rollback().live == 1
        assert [version.state for version in client.models().versions] == ["live", "kept", "kept"]
    assert service.end(signal.SIGINT) == 0


def test_a_port_in_use_is_one_line(doors: Doors) -> None:
    with pytest.raises(WorkError, match=f"REST cannot listen on 127.0.0.1:{doors.rest}"):
        listen("127.0.0.1", doors.rest)
    door = GrpcServer(doors.running.application, RequestAdmission())
    with pytest.raises(WorkError, match=f"gRPC cannot listen on {doors.address}"):
        door.start(doors.address)
