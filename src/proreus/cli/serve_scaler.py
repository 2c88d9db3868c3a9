"""`proreus serve scaler`: replicas of real services, scaled through KEDA by a controller of one's choice."""

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
from proreus.cli.signals import end_at_last, told_to_end
from proreus.httpserver.host_names import is_loopback
from proreus.httpserver.tls import check_authority, check_credentials
from proreus.model.errors import UsageError, needs_extra

_PORT, _HTTP_PORT = 6000, 6001
_LAST_SECONDS = 1.0
"""Beyond --drain-seconds, for what is left to close."""
_DESCRIPTION = """KEDA's external scaler (gRPC): replicas of vLLM by any controller.

What a trigger's metadata may say: docs/serving.md.

Rules that they may name: proreus compare inference --help.

Example: proreus serve scaler --port 6000 --policy runs/x"""


@dataclass(frozen=True)
class ScalerSecurity:
    """Who may ask, and who is asked."""

    tls_cert: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Serve over TLS with this certificate (PEM)."""
    tls_key: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """The certificate's private key (PEM)."""
    tls_client_ca: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Answer gRPC only to those whose certificate these sign (PEM): KEDA's `tlsClientCert`."""
    metrics_host: Annotated[tuple[str, ...], tyro.conf.arg(metavar="PATTERN")] = ()
    """Hosts that metadata may have asked for metrics, as *.llm.svc; without any, all but link-local ones."""
    allowed_host: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME")] = ()
    """Names under which /metrics and /health are asked, besides localhost; beyond this machine and without
    any, all are answered to."""
    strict: bool = False
    """Refuse to listen beyond this machine without --tls-client-ca, instead of warning."""


@dataclass(frozen=True)
class ScalerLimits:
    """What a caller may ask, and what is asked of others."""

    rate: float = 0.0
    """Calls per second and client address, at most; 0: any number."""
    scrape_seconds: float = 5.0
    """How long a replica, or Prometheus, may take to answer."""
    scrape_bytes: int = 4 * 1024 * 1024
    """How long its answer may be."""
    max_shadow_log: int = 64 * 1024 * 1024
    """Bytes of --shadow-log and the file before it, at most."""
    drain_seconds: float = 10.0
    """How long to wait for calls under way when the scaler is told to end."""
    grpc_threads: int = 8
    """Threads that answer gRPC calls."""

    def __post_init__(self) -> None:
        for name, least in (
            ("rate", 0),
            ("scrape_bytes", 1024),
            ("max_shadow_log", 4096),
            ("drain_seconds", 0),
            ("grpc_threads", 1),
        ):
            if not least <= getattr(self, name) < float("inf"):
                raise UsageError(f"--{name} {getattr(self, name)} is below {least}")
        if not 0.01 <= self.scrape_seconds <= 600:
            raise UsageError(f"--scrape_seconds {self.scrape_seconds} is outside 0.01..600")


@dataclass(frozen=True)
class ScalerArguments:
    """Flags of `proreus serve scaler`."""

    host: str = "127.0.0.1"
    """The address to listen on; by default only this machine can reach it."""
    port: int = _PORT
    """Of gRPC, as in `scalerAddress`. 0: any free one."""
    http_port: int = _HTTP_PORT
    """Of /metrics and /health. 0: any free one."""
    policy: Annotated[tuple[str, ...], tyro.conf.arg(metavar="PATH|FILE.py:NAME")] = ()
    """Runs, checkpoints and policies of your own that metadata may name, just as they are named here."""
    shadow_log: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Where objects in shadow write what they would have done, a JSON object a line."""
    state: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Where the numbers of replicas asked for are kept, for when the scaler is started anew."""
    security: ScalerSecurity = field(default_factory=ScalerSecurity)
    limits: ScalerLimits = field(default_factory=ScalerLimits)
    common: CommonArguments = field(default_factory=CommonArguments)

    def __post_init__(self) -> None:
        for name, port in (("port", self.port), ("http_port", self.http_port)):
            if not 0 <= port <= 65_535:
                raise UsageError(f"--{name} {port} is outside 0..65535")
        if self.security.tls_client_ca is not None and self.security.tls_cert is None:
            raise UsageError("--tls-client-ca needs --tls-cert and --tls-key")


def run(words: Sequence[str]) -> int:
    """Scale until told to end."""
    arguments = parse(ScalerArguments, "proreus serve scaler", words, _DESCRIPTION)
    prepare(arguments.common)
    _check_host(arguments)
    try:
        from proreus.serving.scaler.http_fetcher import FetchLimits
        from proreus.serving.scaler.service import ScalerService, ScalerServiceOptions
    except ImportError as error:
        raise UsageError(f"serve {needs_extra('serve')} ({error})") from error
    from proreus.worlds.inference.simulation.throughput import profiled_ability

    security, limits = arguments.security, arguments.limits
    credentials = check_credentials(security.tls_cert, security.tls_key)
    if security.tls_client_ca is not None:
        check_authority(security.tls_client_ca)
    with told_to_end() as ending:
        service = ScalerService(
            ScalerServiceOptions(
                profile=profiled_ability,
                policies=arguments.policy,
                fetch=FetchLimits(limits.scrape_bytes, limits.scrape_seconds, hosts=security.metrics_host),
                shadow_log=arguments.shadow_log,
                shadow_bytes=limits.max_shadow_log,
                memory=arguments.state,
                credentials=credentials,
                clients=security.tls_client_ca,
                rate=limits.rate,
                threads=limits.grpc_threads,
                seed=arguments.common.seed,
            )
        )
        profiled_ability("llama3-8b", "h100-80gb", 1)  # compiled now, not when KEDA waits for an answer
        ending.loaded()
        try:
            port = service.open_grpc(arguments.host, arguments.port)
            http_port = service.open_http(arguments.host, arguments.http_port, security.allowed_host)
            _announce(arguments, port, http_port)
            while not ending.wait(1.0):
                service.check_metrics()
        finally:
            end_at_last(limits.drain_seconds + _LAST_SECONDS)
            service.stop(limits.drain_seconds)
    return 0


def _announce(arguments: ScalerArguments, port: int, http_port: int) -> None:
    console = new_console(arguments.common)
    console.print(f"scaler: {arguments.host}:{port}", soft_wrap=True, highlight=False)
    console.print(f"metrics: {arguments.host}:{http_port}/metrics", soft_wrap=True, highlight=False)
    ready = {
        "pid": os.getpid(),
        "grpc": {"host": arguments.host, "port": port},
        "http": {"host": arguments.host, "port": http_port},
    }
    write_json(arguments.common, ready)


def _check_host(arguments: ScalerArguments) -> None:
    """Beyond this machine: refused when strict, else with a warning, unless callers show a certificate."""
    security = arguments.security
    if security.tls_client_ca is not None or is_loopback(arguments.host):
        return
    says = (
        f"anyone who reaches {arguments.host} can have the scaler ask "
        f"{'the hosts of --metrics-host' if security.metrics_host else 'any host'} for metrics and learn how "
        "many replicas follow; give --tls-client-ca, or listen on 127.0.0.1"
    )
    if security.strict:
        raise UsageError(f"--strict: {says}")
    print(f"proreus: WARNING: {says}", file=sys.stderr, flush=True)
