"""`proreus dashboard [RUN...]`: runs, comparisons, models and a playground in a browser."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from proreus.cli.arguments import CommonArguments, parse, prepare
from proreus.cli.output import new_console, write_json
from proreus.cli.signals import StopEvent, told_to_end
from proreus.httpserver.host_names import is_loopback
from proreus.model.errors import UsageError, needs_extra

PORT = 6490
_DRAIN_SECONDS = 2.0
_EXAMPLE = """Training runs, comparisons and stores of models in a browser, and a playground for policies.

A RUN is a folder of `proreus train`, `proreus compare` or `proreus serve --store`, or a folder of such; what
is added to it while the dashboard runs is shown, too. A cluster that runs has the same pages, with itself in
them: `proreus up`; so has a service: `proreus serve`.

Example: proreus dashboard runs"""


@dataclass(frozen=True)
class DashboardSecurity:
    """Who may ask."""

    token_file: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Answer only those who send the token in this file's first line. Without it nothing can be changed: no
    version of a model is promoted or rolled back."""
    tls_cert: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Serve over TLS with this certificate (PEM)."""
    tls_key: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """The certificate's private key (PEM)."""
    allowed_host: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME")] = ()
    """Names under which it is asked, besides localhost and addresses of loopback."""


@dataclass(frozen=True)
class DashboardArguments:
    """Flags of `proreus dashboard`."""

    runs: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Folders of training runs, comparisons and models, or of folders of them; none: the playground alone."""
    host: str = "127.0.0.1"
    """The address to listen on; beyond this machine only with --token-file."""
    port: int = PORT
    """0: any free one."""
    security: DashboardSecurity = field(default_factory=DashboardSecurity)
    common: CommonArguments = field(default_factory=CommonArguments)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise UsageError(f"--port {self.port} is outside 0..65535")
        if self.security.token_file is None and not is_loopback(self.host):
            raise UsageError(f"beyond this machine ({self.host}) a dashboard wants --token-file FILE")


def run(words: Sequence[str]) -> int:
    """Show it until told to end."""
    arguments = parse(DashboardArguments, "proreus dashboard", words, _EXAMPLE)
    prepare(arguments.common)
    with told_to_end() as ending:
        _serve(arguments, ending)
    return 0


def _serve(arguments: DashboardArguments, ending: StopEvent) -> None:
    try:
        from proreus.httpserver.tls import check_credentials
        from proreus.serving.admission import RequestAdmission, read_token
        from proreus.serving.allowed_hosts import Visitors
        from proreus.serving.metrics import Measurements
        from proreus.serving.server.http import HttpApp
        from proreus.serving.server.rest_server import RestServer
        from proreus.web.dashboard import Dashboard, DashboardOptions
    except ImportError as error:
        raise UsageError(f"dashboard {needs_extra('serve')} ({error})") from error
    security = arguments.security
    token = None if security.token_file is None else read_token(security.token_file)
    credentials = check_credentials(security.tls_cert, security.tls_key)
    visitors = Visitors.of(
        arguments.host, security.allowed_host, token=token is not None, anonymous_updates=False
    )
    dashboard = Dashboard(DashboardOptions("alone", arguments.runs))
    dashboard.check()
    app = HttpApp({}, RequestAdmission(token), Measurements(), visitors=visitors, pages=dashboard)
    server = RestServer(app)
    ending.loaded()
    try:
        port = server.start(arguments.host, arguments.port, credentials)
        _announce(arguments, port, token is not None)
        ending.wait()
    finally:
        dashboard.close()
        server.stop(_DRAIN_SECONDS)
        if not arguments.common.quiet:
            print("proreus: ended", file=sys.stderr, flush=True)


def _announce(arguments: DashboardArguments, port: int, guarded: bool) -> None:
    scheme = "http" if arguments.security.tls_cert is None else "https"
    page = f"{scheme}://{arguments.host}:{port}/"
    console = new_console(arguments.common)
    console.print(f"dashboard: {page}", soft_wrap=True, highlight=False)
    if guarded:
        console.print("it asks for the token of --token-file", soft_wrap=True, highlight=False)
    console.print("Ctrl-C ends it.", soft_wrap=True, highlight=False)
    write_json(arguments.common, {"pid": os.getpid(), "page": page, "port": port})
