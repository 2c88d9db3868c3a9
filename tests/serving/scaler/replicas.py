"""Replicas for tests: what they expose, a server that says it or misbehaves, and a scaler that asks it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from proreus.serving.scaler.http_fetcher import FetchLimits
from proreus.serving.scaler.service import ScalerService, ScalerServiceOptions
from proreus.worlds.inference.model import vllm
from proreus.worlds.inference.state.observation import Ability

ABILITY = Ability(10_000.0, 2_000.0, 100_000.0)
NUMBERS = {
    "promptTokensPerSecond": "10000",
    "outputTokensPerSecond": "2000",
    "kvTokens": "100000",
    "policy": "threshold",
    "fallback": "threshold",
}
"""Of a trigger whose replicas can do so much, scaled by a rule whose answers can be told beforehand."""
"""The same in metadata."""
_LABELS = 'model_name="m",engine="0"'


@dataclass(frozen=True)
class Says:
    """What a replica exposes, in few numbers."""

    running: float | str = 4
    waiting: float | str = 0
    kv_use: float | str = 0.5
    prompt_tokens: float = 10_000
    output_tokens: float = 2_000
    ended: float = 20
    quick: float = 20
    """First tokens within 0.5 s."""
    late: float = 0
    """First tokens between 2.5 and 5 s."""

    def text(self) -> str:
        """As a server answers."""
        lines = []
        for name, value in (
            (vllm.RUNNING, self.running),
            (vllm.WAITING, self.waiting),
            (vllm.KV_USE, self.kv_use),
        ):
            lines += [f"# TYPE {name} gauge", f"{name}{{{_LABELS}}} {value}"]
        for name, value in (
            (vllm.PROMPT_TOKENS, self.prompt_tokens),
            (vllm.OUTPUT_TOKENS, self.output_tokens),
            (vllm.ENDED, self.ended),
        ):
            lines += [f"# TYPE {name} counter", f"{name}_total{{{_LABELS}}} {value}"]
        lines.append(f"# TYPE {vllm.TTFT} histogram")
        for bound in (*vllm.TTFT_BOUNDS, float("inf")):
            count = (self.quick if bound >= 0.5 else 0) + (self.late if bound >= 5.0 else 0)
            le = "+Inf" if bound == float("inf") else repr(bound)
            lines.append(f'{vllm.TTFT}_bucket{{{_LABELS},le="{le}"}} {count}')
        lines.append(f"{vllm.TTFT}_sum{{{_LABELS}}} {0.4 * self.quick + 4.0 * self.late}")
        lines.append(f"{vllm.TTFT}_count{{{_LABELS}}} {self.quick + self.late}")
        return "\n".join(["# HELP python_info none", "python_info 1.0", *lines, ""])

    def after(self, seconds: float, rate: float = 1.0) -> Says:
        """So much later, at so many requests a second."""
        more = seconds * rate
        return replace(
            self,
            prompt_tokens=self.prompt_tokens + 500 * more,
            output_tokens=self.output_tokens + 100 * more,
            ended=self.ended + more,
            quick=self.quick + more,
        )


Misbehave = Callable[[socket.socket], None]


class FakeReplicas:
    """A server of /PLACE/metrics: each place says something, is absent, or misbehaves on the bare socket."""

    def __init__(self) -> None:
        self.places: dict[str, Says | str | int | Misbehave] = {}
        self._server = _Server(("127.0.0.1", 0), _Handler)
        cast(Any, self._server).replicas = self
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def urls(self, *places: str) -> str:
        return ",".join(f"http://127.0.0.1:{self.port}/{place}/metrics" for place in places)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever is asked too much hangs up on it."""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        places = cast(Any, self.server).replicas.places
        found = places.get(self.path.split("/")[1].partition("?")[0], 404)
        match found:
            case Says():
                self._answer(200, found.text())
            case str():
                self._answer(200, found)
            case int():
                self._answer(found, "")
            case _:
                found(self.connection)

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(text.encode())))
        if 300 <= status < 400:
            self.send_header("location", "/a/metrics")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def running_scaler(clock: Callable[[], float], **options: Any) -> Iterator[tuple[ScalerService, int]]:
    """A scaler that looks only when it is asked, and its port."""
    given: dict[str, Any] = {
        "profile": lambda model, gpu, gpus: ABILITY,
        "clock": clock,
        "ticking": False,
        "fetch": FetchLimits(seconds=10.0),
        **options,
    }
    service = ScalerService(ScalerServiceOptions(**given))
    try:
        yield service, service.open_grpc("127.0.0.1", 0)
    finally:
        service.stop(1.0)
