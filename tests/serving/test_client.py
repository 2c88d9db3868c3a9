"""The clients: both protocols, blocking and asyncio, retries, errors that say what happened."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading

import msgspec
import numpy as np
import pytest

import proreus.serving.client as client_package
from proreus.model.errors import UsageError
from proreus.serving.admission import RequestAdmission
from proreus.serving.client.grpc import AsyncGrpcClient, GrpcClient
from proreus.serving.client.rest import AsyncRestClient, ClientOptions, RestClient, ServiceError
from proreus.serving.cluster_api.request import DecideRequest
from proreus.serving.server.http import HttpApp
from proreus.serving.server.rest_handlers import RestApi
from proreus.serving.server.rest_server import RestServer
from tests.serving.door_cases import Doors
from tests.serving.test_cluster_api import REQUEST

STATE = np.linspace(0.0, 1.0, 6)
QUICK = ClientOptions(timeout=5.0, retries=0)


def test_blocking_and_asyncio_clients_hear_the_same(doors: Doors) -> None:
    block = np.random.default_rng(0).random((7, 6))

    async def ask() -> tuple[object, ...]:
        async with AsyncRestClient(doors.url) as rest, AsyncGrpcClient(doors.address) as grpc:
            singles = await asyncio.gather(*(rest.predict(state) for state in block))
            batches = await asyncio.gather(rest.predict_batch(block), grpc.predict_batch(block))
            update_answer = await rest.update([STATE], ([0], [1.0], [True]))
            more = await grpc.update([STATE], ([0], [1.0], [True]))
            health = await rest.health()
            decided = await rest.decide(msgspec.convert(REQUEST, DecideRequest))
            return (
                singles,
                await grpc.predict(block[0]),
                batches,
                update_answer,
                more,
                health.status,
                decided.node,
            )

    singles, single, batches, told, more, status, node = asyncio.run(ask())
    with RestClient(doors.url) as rest, GrpcClient(doors.address) as grpc:
        expected = [rest.predict(state) for state in block]
        assert list(singles) == expected and single == expected[0]  # type: ignore[call-overload]
        assert list(grpc.predict_stream(block)) == expected
        assert rest.update([STATE], ([0], [1.0], [True])) == told == more
        assert rest.health().status == status
        assert rest.decide(msgspec.convert(REQUEST, DecideRequest)).node == node
        assert rest.models().live == expected[0].model_version
    for batch in batches:  # type: ignore[attr-defined]
        assert batch.actions.tolist() == [answer.action for answer in expected]


def test_the_package_offers_every_client_and_loads_what_is_asked_for() -> None:
    assert {name: getattr(client_package, name).__name__ for name in client_package.__all__} == {
        name: name for name in client_package.__all__
    }
    assert client_package.RestClient is RestClient and client_package.AsyncGrpcClient is AsyncGrpcClient
    with pytest.raises(ImportError, match="SoapClient"):
        from proreus.serving.client import SoapClient  # type: ignore[attr-defined]  # noqa: F401
    asked = "import sys; from proreus.serving.client import RestClient; sys.exit('grpc' in sys.modules)"
    subprocess.run([sys.executable, "-c", asked], check=True, timeout=120)


def test_refusals_name_code_and_field(doors: Doors) -> None:
    with RestClient(doors.url) as rest, GrpcClient(doors.address) as grpc:
        for client in (rest, grpc):
            with pytest.raises(ServiceError, match="state: has 5 numbers") as caught:
                client.predict(STATE[:5])
            assert caught.value.field == "state"
            with pytest.raises(ServiceError, match="dones"):
                client.update([STATE], ([0], [1.0], []))
        with pytest.raises(ServiceError, match="state: has 5"):
            list(grpc.predict_stream([STATE, STATE[:5]]))
        with pytest.raises(ServiceError, match="has no version 99") as caught:
            rest.promote(99)
        assert caught.value.code == "not_found"


def test_nobody_there_is_one_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for client in (RestClient(f"http://127.0.0.1:{port}", QUICK), GrpcClient(f"127.0.0.1:{port}", QUICK)):
        with client, pytest.raises(ServiceError) as caught:
            client.predict(STATE)
        assert caught.value.code == "unreachable"
    with pytest.raises(UsageError, match="is not the address of a service"):
        RestClient("127.0.0.1:5000")


def test_a_service_that_comes_late_is_reached(doors: Doors) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    application = doors.running.application
    api = RestApi(application, 1 << 20)
    door = RestServer(HttpApp(api.routes(), RequestAdmission(), application.service.measurements))
    late = threading.Timer(0.3, door.start, ("127.0.0.1", port))
    late.start()
    with RestClient(f"http://127.0.0.1:{port}", ClientOptions(retries=6)) as client:
        assert client.predict(STATE).decided_by == "model"
    late.join()
    door.stop(1.0)


def test_a_report_that_was_sent_is_never_sent_twice() -> None:
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def hang_up() -> None:
            server.settimeout(1.0)
            while True:
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    return
                with connection:
                    heard.append(connection.recv(65_536))

        thread = threading.Thread(target=hang_up)
        thread.start()
        client = RestClient(f"http://127.0.0.1:{port}", ClientOptions(retries=3))
        with client, pytest.raises(ServiceError):
            client.update([STATE], ([0], [1.0], [True]))
        thread.join(10)
    assert len(heard) == 1 and b"/v1/update" in heard[0]


def test_an_idle_connection_that_the_service_closed_is_made_anew(doors: Doors) -> None:
    with RestClient(doors.url) as client:
        client.predict(STATE)
        connection = client._connection
        assert connection is not None and connection.sock is not None
        connection.sock.shutdown(socket.SHUT_RDWR)
        assert client.predict(STATE).decided_by == "model"
