"""The API as a running server, in the event loop of whoever starts it."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from contextlib import AbstractContextManager, nullcontext

import uvicorn
from starlette.applications import Starlette

from proreus.engine.api.server.options import ApiOptions
from proreus.httpserver.certificate_authority import Authority
from proreus.httpserver.connection_limits import Crowd
from proreus.httpserver.sockets import BACKLOG, listen
from proreus.httpserver.tls_handshakes import Handshakes
from proreus.httpserver.upgrade import UpgradableProtocol
from proreus.model.errors import ProreusError

_RENEW_SECONDS = 3600.0
"""Between two looks at the certificate."""
_log = logging.getLogger(__name__)


class ApiServer:
    """Start it, serve, stop it."""

    def __init__(self, app: Starlette, options: ApiOptions) -> None:
        self._listening = listen(options.host, options.port, "the API")
        credentials = options.credentials
        if credentials is None and options.authority is not None:
            credentials = options.authority.credentials()
        config = uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="on",
            access_log=False,
            log_config=None,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=2,
            ssl_certfile=None if credentials is None else credentials[0],
            ssl_keyfile=None if credentials is None else credentials[1],
        )
        self._server = _Server(config, options, app)
        self._task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listening.getsockname()[1])

    async def start(self) -> None:
        """Listen; returns when requests are answered."""
        self._task = asyncio.create_task(self._server.serve(sockets=[self._listening]), name="the API")
        while not self._server.started:
            if self._task.done():
                await self._task
                return
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        """Take no more requests, and end those under way within seconds."""
        self._server.should_exit = True
        if self._task is not None:
            await self._task


async def _renew(context: ssl.SSLContext, authority: Authority) -> None:
    """Whoever comes after the certificate was made anew is shown the new one."""
    shown = 0
    while True:
        try:
            certificate, key = await asyncio.to_thread(authority.credentials)
            if (made := certificate.stat().st_mtime_ns) != shown:
                context.load_cert_chain(certificate, key)
                shown = made
        except (ProreusError, OSError) as error:
            _log.warning("the certificate of the API cannot be renewed: %s; trying again", error)
        await asyncio.sleep(_RENEW_SECONDS)


class _Server(uvicorn.Server):
    """uvicorn's server, with connections that are counted and watched from their first byte on."""

    def __init__(self, config: uvicorn.Config, options: ApiOptions, app: Starlette) -> None:
        super().__init__(config)
        self._app = app
        self._limits, self._options = options.limits, options
        self._tasks: list[asyncio.Task[None]] = []

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Signals are for the program around it."""
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections."""
        await self.lifespan.startup()
        loop, crowd = asyncio.get_running_loop(), Crowd(self._limits)

        def connection() -> asyncio.Protocol:
            return UpgradableProtocol(
                self.config, crowd, server_state=self.server_state, app_state=self.lifespan.state, _loop=loop
            )

        self._tasks = [loop.create_task(crowd.watch(loop))]
        self.servers = []
        if self.config.ssl is None:
            self.servers = [
                await loop.create_server(connection, sock=sock, backlog=BACKLOG) for sock in sockets or ()
            ]
        else:
            handshakes = Handshakes(
                self.config.ssl, max(1, self._limits.connections // 4), plain_here=self._options.plain_here
            )
            if self._options.authority is not None:
                self._tasks.append(loop.create_task(_renew(self.config.ssl, self._options.authority)))
            self._tasks += [loop.create_task(handshakes.accept(sock, connection)) for sock in sockets or ()]
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, and let go of those that are done."""
        for task in self._tasks:
            task.cancel()
        self._app.state.end_streams()
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):  # whose client takes nothing any more
            connection.transport.abort()
        await asyncio.sleep(0)  # what was aborted is let go of in the loop's next round
