"""`proreus serve scaler` ends at the first SIGTERM, whatever it waits for."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from proreus.serving.scaler.http_fetcher import Closed, Fetcher
from tests.serving.door_cases import ask
from tests.serving.scaler.keda_wire import Keda, reference
from tests.serving.scaler.replicas import NUMBERS, FakeReplicas, Says
from tests.serving.service_process import ServiceProcess

DRAIN = 3.0
OBJECTS = 40


def slowly(to: socket.socket) -> None:
    time.sleep(0.3)
    text = Says().text().encode()
    to.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(text) + text)


def never(to: socket.socket) -> None:
    to.sendall(b"HTTP/1.1 200 OK\r\n")
    time.sleep(60.0)


@pytest.mark.parametrize("wait", [1.0, 1.4, 1.8])
def test_many_objects_that_are_looked_at_all_the_time(
    wait: float, fake: FakeReplicas, tmp_path: Path
) -> None:
    fake.places["a"] = slowly
    metadata = {**NUMBERS, "metrics": fake.urls("a"), "interval": "0.3"}
    words = ("--http-port", "0", "--drain-seconds", f"{DRAIN:g}", "--log-level", "info")
    process = ServiceProcess(tmp_path, "scaler", *words)
    try:
        with Keda(process.grpc) as keda:
            with ThreadPoolExecutor(8) as askers:
                list(askers.map(lambda n: keda.replicas(f"vllm{n}", metadata), range(OBJECTS)))
            time.sleep(wait)
            assert _ended_after(process) < DRAIN + 5.0
    finally:
        process.kill()
    assert "Traceback" not in (tmp_path / "stderr.txt").read_text()


def test_callers_that_wait_for_a_replica_that_hangs(fake: FakeReplicas, tmp_path: Path) -> None:
    fake.places["a"] = never
    words = ("--http-port", "0", "--drain-seconds", f"{DRAIN:g}", "--scrape-seconds", "300")
    process = ServiceProcess(tmp_path, "scaler", *words)
    codes: list[grpc.StatusCode] = []
    try:
        with Keda(process.grpc) as keda:
            callers = [threading.Thread(target=_refused, args=(keda, fake, n, codes)) for n in range(12)]
            for caller in callers:
                caller.start()
            streams = [keda.stream("StreamIsActive", _asked(fake, f"s{n}")) for n in range(4)]
            time.sleep(1.0)
            assert _ended_after(process) < DRAIN + 5.0
            for caller in callers:
                caller.join(10.0)
            assert streams
    finally:
        process.kill()
    assert len(codes) == 12
    assert set(codes) <= {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
    assert "Traceback" not in (tmp_path / "stderr.txt").read_text()


OWN = """
import re, time
from proreus.worlds.inference.model.decision import Scale

class HoldsTheLock:
    def __init__(self):
        self.asked = 0
    def decide(self, seen):
        self.asked += 1
        if self.asked > 2:
            re.match(r"(a+)+$", "a" * 60 + "b")
        return Scale()
"""


def test_a_policy_that_holds_the_lock_holds_nobody_up_and_does_not_keep_it_from_ending(
    fake: FakeReplicas, tmp_path: Path
) -> None:
    """In a thread it held the whole scaler, SIGTERM included."""
    fake.places["a"] = Says()
    own = tmp_path / "own.py"
    own.write_text(OWN)
    policy = f"{own}:HoldsTheLock"
    words = ("--http-port", "0", "--drain-seconds", f"{DRAIN:g}", "--policy", policy)
    process = ServiceProcess(tmp_path, "scaler", *words)
    metadata = {"metrics": fake.urls("a"), "interval": "0.3", "policy": policy, "deadlineMs": "1000"}
    try:
        with Keda(process.grpc) as keda:
            until = time.monotonic() + 60.0
            while b'reason="slow"' not in ask(int(process.about["http"]["port"]), "/metrics").body:
                began = time.monotonic()
                assert keda.replicas("vllm", {**NUMBERS, **metadata}) == 1
                assert time.monotonic() - began < 10.0
                assert began < until
                time.sleep(0.2)
            assert _ended_after(process) < DRAIN + 5.0
    finally:
        process.kill()
    assert "Traceback" not in (tmp_path / "stderr.txt").read_text()


def _asked(fake: FakeReplicas, name: str) -> bytes:
    return reference(name, {**NUMBERS, "metrics": fake.urls("a")})


def _refused(keda: Keda, fake: FakeReplicas, number: int, codes: list[grpc.StatusCode]) -> None:
    try:
        keda.call("IsActive", _asked(fake, f"o{number}"))
    except grpc.RpcError as error:
        codes.append(error.code())


def _ended_after(process: ServiceProcess) -> float:
    began = time.monotonic()
    process.process.send_signal(signal.SIGTERM)
    assert process.process.wait(60.0) == 0
    return time.monotonic() - began


def test_a_closed_fetcher_lets_nobody_wait(fake: FakeReplicas) -> None:
    fake.places["a"] = never
    fetcher = Fetcher()
    errors: list[BaseException] = []

    def ask(work: Callable[[], object]) -> None:
        try:
            work()
        except Closed as error:
            errors.append(error)

    def get() -> object:
        return fetcher.run(fetcher.get(fetcher.slots(), fake.urls("a"), "127.0.0.1"))

    waiting = [threading.Thread(target=ask, args=(get,)) for _ in range(8)]
    for thread in waiting:
        thread.start()
    time.sleep(0.2)
    fetcher.close()
    for thread in waiting:
        thread.join(10.0)
    ask(get)
    assert len(errors) == 9
    fetcher.close()
