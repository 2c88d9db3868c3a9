"""The REST door as a running server: uvicorn in a thread of its own, started and stopped from outside."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from pathlib import Path

import uvicorn

from proreus.httpserver.connection_limits import Crowd
from proreus.httpserver.sockets import BACKLOG, listen
from proreus.httpserver.tls_handshakes import Handshakes
from proreus.model.errors import WorkError
from proreus.serving.server.fast_path import QuickProtocol
from proreus.serving.server.http import HttpApp

_STARTUP_SECONDS = 30.0


class RestServer:
    """An HTTP server over one application."""

    def __init__(self, app: HttpApp) -> None:
        self._app = app
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(
        self,
        host: str,
        port: int,
        credentials: tuple[Path, Path] | None = None,
        clients: Path | None = None,
    ) -> int:
        """Listen; the port, where 0 was asked for. credentials: certificate and key; clients: who signs the
        certificates of those that may ask, None: anyone may."""
        listening = listen(host, port)
        config = uvicorn.Config(
            self._app,
            loop="auto",
            http="httptools",
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            ssl_certfile=None if credentials is None else credentials[0],
            ssl_keyfile=None if credentials is None else credentials[1],
            ssl_ca_certs=None if clients is None else str(clients),
            ssl_cert_reqs=ssl.CERT_NONE if clients is None else ssl.CERT_REQUIRED,
        )
        server = self._server = _Server(config, self._app)
        failure: list[BaseException] = []
        started = threading.Event()

        def serve() -> None:
            async def main() -> None:
                task = asyncio.ensure_future(server.serve(sockets=[listening]))
                while not server.started and not task.done():
                    await asyncio.sleep(0.005)
                started.set()
                await task

            try:
                with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
                    runner.run(main())
            except BaseException as error:  # noqa: BLE001 - handed to whoever starts the door
                failure.append(error)
            finally:
                started.set()

        self._thread = threading.Thread(target=serve, name="rest", daemon=True)
        self._thread.start()
        if not started.wait(_STARTUP_SECONDS) or failure:
            raise WorkError(f"REST cannot serve: {failure[0] if failure else 'it did not start in time'}")
        return int(listening.getsockname()[1])

    def stop(self, seconds: float) -> None:
        """Take no more requests, and end those under way within so many seconds."""
        if self._server is None or self._thread is None:
            return
        self._server.config.timeout_graceful_shutdown = max(1, round(seconds))
        self._server.should_exit = True
        self._thread.join(seconds + 5.0)
        self._app.close()


class _Server(uvicorn.Server):
    """uvicorn's server, with connections that are counted and watched from their first byte on."""

    def __init__(self, config: uvicorn.Config, app: HttpApp) -> None:
        super().__init__(config)
        self._limits = app.limits
        self._tasks: list[asyncio.Task[None]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections."""
        await self.lifespan.startup()
        loop, crowd = asyncio.get_running_loop(), Crowd(self._limits)

        def connection() -> asyncio.Protocol:
            return QuickProtocol(self.config, crowd, server_state=self.server_state, app_state={}, _loop=loop)

        self._tasks = [loop.create_task(crowd.watch(loop))]
        if self.config.ssl is None:
            self.servers = [
                await loop.create_server(connection, sock=one, backlog=BACKLOG) for one in sockets or ()
            ]
        else:
            handshakes = Handshakes(self.config.ssl, max(1, self._limits.connections // 4))
            self.servers = []
            self._tasks += [loop.create_task(handshakes.accept(one, connection)) for one in sockets or ()]
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, and let go of those that are done."""
        for task in self._tasks:
            task.cancel()
        await super().shutdown(sockets)
