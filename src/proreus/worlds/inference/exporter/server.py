"""The fake exporter over HTTP: the metrics of every replica, and how many there are to be."""

from __future__ import annotations

import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from prometheus_client import CONTENT_TYPE_LATEST

from proreus.worlds.inference.exporter.fleet import SimulatedFleet
from proreus.worlds.inference.model.cluster import ROLES, Role

_METRICS = re.compile(r"/(prompt|token|mixed)/(\d{1,4})/metrics")
_SCALE = re.compile(r"/(prompt|token|mixed)/scale")
_LONGEST = 1_024


class ExporterServer:
    """`/POOL/PLACE/metrics` as vLLM answers it; GET and PUT `/POOL/scale` as `{"replicas": 3}`."""

    def __init__(self, fleet: SimulatedFleet, host: str = "127.0.0.1", port: int = 0) -> None:
        self.fleet = fleet
        self.lock = threading.Lock()
        """Held while the fleet is read or changed."""
        self._server = _Server((host, port), _Handler)
        cast(Any, self._server).exporter = self
        self._thread = threading.Thread(target=self._server.serve_forever, name="exporter", daemon=True)

    @property
    def address(self) -> str:
        """http://host:port"""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def urls(self, role: Role = "mixed") -> list[str]:
        """The metrics of every place of a pool, whoever is there."""
        return [f"{self.address}/{role}/{place}/metrics" for place in range(self.fleet.places)]

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who hangs up early is not worth a traceback."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    @property
    def _exporter(self) -> ExporterServer:
        exporter_server: ExporterServer = cast(Any, self.server).exporter
        return exporter_server

    def do_GET(self) -> None:
        """Metrics of a replica, or how many replicas there are."""
        exporter = self._exporter
        if match := _METRICS.fullmatch(self.path):
            with exporter.lock:
                text = exporter.fleet.metrics(int(match[2]), _role(match[1]))
            if text is None:
                self._answer(503, b"not serving\n", "text/plain")
            else:
                self._answer(200, text, CONTENT_TYPE_LATEST)
        elif match := _SCALE.fullmatch(self.path):
            self._tell(_role(match[1]))
        else:
            self._answer(404, b"/POOL/PLACE/metrics, /POOL/scale\n", "text/plain")

    def do_PUT(self) -> None:
        """So many replicas there are to be."""
        match = _SCALE.fullmatch(self.path)
        length = int(self.headers.get("content-length") or 0)
        try:
            body = json.loads(self.rfile.read(length)) if 0 < length <= _LONGEST else None
        except ValueError:
            body = None
        count = body.get("replicas") if isinstance(body, dict) else None
        if match is None or not isinstance(count, int) or not 0 <= count <= self._exporter.fleet.places:
            self._answer(400, b'expected {"replicas": NUMBER}\n', "text/plain")
            return
        with self._exporter.lock:
            self._exporter.fleet.scale(_role(match[1]), count)
        self._tell(_role(match[1]))

    def _tell(self, role: Role) -> None:
        fleet = self._exporter.fleet
        with self._exporter.lock:
            told = {"replicas": fleet.replicas(role), "serving": fleet.serving(role), "now": fleet.now}
        self._answer(200, json.dumps(told).encode(), "application/json")

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Scrapes are not worth a line."""


def _role(name: str) -> Role:
    return ROLES[ROLES.index(cast(Role, name))]
