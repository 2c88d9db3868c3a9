"""Random requests at both doors for as long as asked: nothing may fail by the service's own fault.

`python -m tests.serving.attacks.fuzz --minutes 60` starts a service of its own, lets schemathesis try what
the published OpenAPI document describes and what it forbids, sends mutated gRPC messages and mutated bytes
of HTTP, and ends with exit code 1 if any answer was a 5xx, INTERNAL or UNKNOWN, or if the service ended.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error

from proreus.serving.protos import decision_pb2 as decision
from tests.serving.attacks.conftest import WORDS
from tests.serving.door_cases import fresh_checkpoint
from tests.serving.service_process import ServiceProcess

_V1 = "/proreus.decision.v1.Decision"
_CALLS = (
    "/scheduler.Scheduler/Predict",
    f"{_V1}/Predict",
    f"{_V1}/PredictBatch",
    f"{_V1}/Update",
    "/grpc.health.v1.Health/Check",
)
_OURS = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNAVAILABLE}
_STATE = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
_EXAMPLES = 40


class Fuzz:
    """Counts what was tried, and what failed."""

    def __init__(self, service: ServiceProcess, seed: int) -> None:
        self.service = service
        self.random = random.Random(seed)
        self.tried: Counter[str] = Counter()
        self.failed: list[str] = []
        self.schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{service.rest}/openapi.json")
        self.channel = grpc.insecure_channel(f"127.0.0.1:{service.grpc}")

    def rest(self) -> None:
        """Every call of the document, with values that fit and values that do not."""
        for path in self.schema:
            for method in self.schema[path]:
                self._operation(self.schema[path][method])

    def _operation(self, operation: Any) -> None:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            try:
                # A call that takes nothing has nothing to get wrong.
                with contextlib.suppress(Unsatisfiable):
                    self._cases(operation, mode)
            except Exception as error:  # noqa: BLE001 - noted, and the next call is tried
                self.failed.append(f"{operation.label}: {error!r:.500}")

    def _cases(self, operation: Any, mode: Any) -> None:
        @settings(
            max_examples=_EXAMPLES,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
            deadline=None,
            database=None,
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case: Any) -> None:
            self.tried["rest"] += 1
            response = case.call(timeout=60)
            if response.status_code >= 500:
                self.failed.append(f"{case.method} {case.path} {response.status_code}: {case.body!r:.500}")
            case.validate_response(response, checks=(not_a_server_error,))

        check()

    def grpc(self) -> None:
        """Messages with bits, lengths and pieces changed."""
        states = [decision.State(state=_STATE) for _ in range(3)]
        messages = [
            decision.PredictRequest(state=_STATE, mask=[True] * 8, top_k=3).SerializeToString(),
            decision.BatchRequest(states=states).SerializeToString(),
            decision.BatchRequest(packed=b"\x00" * 96, state_length=6).SerializeToString(),
            decision.UpdateRequest(
                states=states, actions=[0] * 3, rewards=[0.5] * 3, dones=[True] * 3, model_version=1
            ).SerializeToString(),
        ]
        for _ in range(400):
            path, data = self.random.choice(_CALLS), self._mutated(self.random.choice(messages))
            self.tried["grpc"] += 1
            try:
                self.channel.unary_unary(path)(data, timeout=60)
            except grpc.RpcError as error:
                if error.code() in _OURS:
                    self.failed.append(f"{path} {error.code()} {error.details()}: {data.hex()[:500]}")

    def http(self) -> None:
        """Bytes that are almost HTTP."""
        body = b'{"state":[0.1,0.2,0.3,0.4,0.5,0.6]}'
        head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        requests = (
            head + b"Content-Length: %d\r\n\r\n" % len(body) + body,
            head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\nx: y\r\n\r\n" % (len(body), body),
            b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n",
        )
        for _ in range(100):
            self.tried["http"] += 1
            data = self._mutated(b"".join(self.random.choices(requests, k=self.random.randint(1, 4))))
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", self.service.rest), timeout=1.0) as plain,
            ):
                plain.sendall(data)
                plain.shutdown(socket.SHUT_WR)
                said = b"".join(iter(lambda: plain.recv(65_536), b""))
                if b"HTTP/1.1 5" in said:
                    self.failed.append(f"http {said[:200]!r}: {data[:500]!r}")

    def _mutated(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self.random.randint(1, 6)):
            at = self.random.randrange(len(changed) + 1)
            match self.random.randrange(5):
                case 0 if at < len(changed):
                    changed[at] ^= 1 << self.random.randrange(8)
                case 1:
                    changed[at:at] = self.random.randbytes(self.random.randint(1, 9))
                case 2:
                    del changed[at : at + self.random.randint(1, 20)]
                case 3:
                    changed[at:at] = changed[: self.random.randint(0, 40)]
                case _:
                    changed[at : at + 1] = self.random.choice(
                        (b"\xff", b"\x00", b"\r\n", b"\x80" * 5, b"9" * 20)
                    )
            if not changed:
                changed = bytearray(b"\x00")
        return bytes(changed)


def main() -> int:
    """Try until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fresh_checkpoint(folder / "fresh")
        words = ("--model", "fresh/", "--policy", "kube", "--deadline-ms", "60000")
        service = ServiceProcess(folder, "all", *WORDS, *words)
        fuzz = Fuzz(service, wanted.seed)
        until = time.monotonic() + 60 * wanted.minutes
        turns: tuple[Callable[[], None], ...] = (fuzz.rest, fuzz.grpc, fuzz.http)
        while time.monotonic() < until and service.process.poll() is None:
            for turn in turns:
                turn()
                _say(f"{dict(fuzz.tried)}, failed {len(fuzz.failed)}")
        alive = service.process.poll() is None
        if alive:
            service.end()
    for line in fuzz.failed[:20]:
        _say(line)
    _say("the service ended" if not alive else f"{sum(fuzz.tried.values())} tried, {len(fuzz.failed)} failed")
    return 1 if fuzz.failed or not alive else 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
