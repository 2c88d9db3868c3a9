"""The standard health service: what a name's status is, now or whenever it changes."""

from __future__ import annotations

import threading
from collections.abc import Callable

from grpc_health.v1 import health_pb2

from proreus.serving.messages import Refusal, Refused
from proreus.serving.server.grpc_messages import parse
from proreus.serving.server.grpc_methods import Call, Method, Send

HEALTH = "grpc.health.v1.Health"
_Status = health_pb2.HealthCheckResponse


class Health:
    """Statuses by the names of services; "" is the server as a whole."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._lock = threading.Lock()
        self._statuses: dict[str, int] = dict.fromkeys(("", *names), _Status.SERVING)
        self._watching: dict[object, tuple[str, Send]] = {}

    def methods(self) -> dict[str, Method]:
        """By their name."""
        return {
            "Check": Method(self.check, open_to_all=True),
            "Watch": Method(subscribe=self.watch, open_to_all=True),
        }

    def check(self, data: bytes, call: Call) -> bytes:
        """The status now; NOT_FOUND where nobody has that name."""
        del call
        name = parse(health_pb2.HealthCheckRequest.FromString, data).service
        status = self._statuses.get(name)
        if status is None:
            raise Refused(Refusal.NOT_FOUND, f"{name!r} is no service of this server", "service")
        return _answer(status)

    def watch(self, data: bytes, send: Send) -> Callable[[], None]:
        """The status now and whenever it changes, until the returned function is called."""
        name = parse(health_pb2.HealthCheckRequest.FromString, data).service
        key = object()
        with self._lock:
            self._watching[key] = (name, send)
            send(_answer(self._statuses.get(name, _Status.SERVICE_UNKNOWN)))

        def stop() -> None:
            with self._lock:
                self._watching.pop(key, None)

        return stop

    def drain(self) -> None:
        """Nobody should send calls any more."""
        with self._lock:
            self._statuses = dict.fromkeys(self._statuses, _Status.NOT_SERVING)
            for name, send in self._watching.values():
                if name in self._statuses:
                    send(_answer(_Status.NOT_SERVING))


def _answer(status: int) -> bytes:
    answer: bytes = _Status(status=status).SerializeToString()
    return answer
