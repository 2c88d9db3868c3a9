"""`proreus kube extender`: a policy has its say in a kube-scheduler that is there already."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from proreus.cli.arguments import CommonArguments, parse, prepare
from proreus.cli.kube_arguments import ClusterArguments, client_maker
from proreus.cli.output import new_console, waiting, write_json
from proreus.cli.signals import end_at_last, told_to_end
from proreus.httpserver.host_names import is_loopback
from proreus.httpserver.tls import check_authority, check_credentials
from proreus.model.errors import UsageError, needs_extra

_PORT, _HTTP_PORT = 8900, 8901
_LAST_SECONDS = 1.0
_DESCRIPTION = """kube-scheduler's HTTP extender: filter, prioritize, preempt, bind.

kube-scheduler's own filters stand before every call; where the policy is slow or fails, every node is liked
equally. How kube-scheduler is told of it: docs/kubernetes.md.

Example: proreus kube extender --policy learned --port 8900"""


@dataclass(frozen=True)
class ExtenderSecurity:
    """Who may ask."""

    tls_cert: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Serve over TLS with this certificate (PEM)."""
    tls_key: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """The certificate's private key (PEM)."""
    tls_client_ca: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Answer only to those whose certificate these sign (PEM): the extender's `tlsConfig` has one."""
    allowed_host: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME")] = ()
    """Names under which it is asked, besides localhost; beyond this machine and without any, all."""
    strict: bool = False
    """Refuse to listen beyond this machine without --tls-client-ca, instead of warning."""


@dataclass(frozen=True)
class ExtenderArguments:
    """Flags of `proreus kube extender`."""

    policy: Annotated[str, tyro.conf.arg(metavar="NAME|PATH|FILE.py:NAME")] = "learned"
    """Who likes which node how much: a rule, learned, a checkpoint, a policy of your own."""
    host: str = "127.0.0.1"
    """The address to listen on; by default only this machine can reach it."""
    port: int = _PORT
    """Of the extender, as in `urlPrefix`. 0: any free one."""
    http_port: int = _HTTP_PORT
    """Of /healthz, /readyz and /metrics, without TLS. 0: any free one."""
    deadline_ms: float = 100.0
    """How long the policy may take; then every node is liked equally."""
    filter: Literal["gpu", "all"] = "gpu"
    """Which nodes `filter` takes away: those without the shares of GPUs that kube-scheduler cannot know of,
    or all that the kube rules refuse in the cluster as the extender sees it."""
    bind: bool = False
    """Answer `bind`: write bindings, with the numbers of the GPUs that a pod was given."""
    assume_seconds: float = 2.0
    """How long a pod is believed to go where it was liked best, until the cluster says where it went."""
    drain_seconds: float = 5.0
    """How long to wait for calls under way when told to end."""
    cluster: ClusterArguments = field(default_factory=ClusterArguments)
    security: ExtenderSecurity = field(default_factory=ExtenderSecurity)
    common: CommonArguments = field(default_factory=CommonArguments)

    def __post_init__(self) -> None:
        for name, port in (("port", self.port), ("http_port", self.http_port)):
            if not 0 <= port <= 65_535:
                raise UsageError(f"--{name} {port} is outside 0..65535")
        if not 1.0 <= self.deadline_ms <= 60_000.0:
            raise UsageError(f"--deadline_ms {self.deadline_ms} is outside 1..60000")
        for name in ("assume_seconds", "drain_seconds"):
            if not 0.0 <= getattr(self, name) <= 600.0:
                raise UsageError(f"--{name} {getattr(self, name)} is outside 0..600")
        if self.security.tls_client_ca is not None and self.security.tls_cert is None:
            raise UsageError("--tls-client-ca needs --tls-cert and --tls-key")


def run(words: Sequence[str]) -> int:
    """Answer until told to end."""
    arguments = parse(ExtenderArguments, "proreus kube extender", words, _DESCRIPTION)
    prepare(arguments.common)
    _check_host(arguments)
    security = arguments.security
    credentials = check_credentials(security.tls_cert, security.tls_key)
    if security.tls_client_ca is not None:
        check_authority(security.tls_client_ca)
    make_client = client_maker(arguments.cluster, "extender")
    try:
        from proreus.kubeagents.extender.answers import ExtenderOptions
        from proreus.kubeagents.extender.service import ExtenderService, ExtenderServiceOptions
    except ImportError as error:
        raise UsageError(f"kube extender {needs_extra('serve')} ({error})") from error
    from proreus.worlds.pods.policies.wire_format import pod_strangers

    console = new_console(arguments.common)
    with told_to_end() as ending:
        service = ExtenderService(
            ExtenderServiceOptions(
                policy=arguments.policy,
                deadline=arguments.deadline_ms / 1e3,
                binds=arguments.bind,
                answers=ExtenderOptions(arguments.filter, arguments.assume_seconds),
                credentials=credentials,
                clients=security.tls_client_ca,
                seed=arguments.common.seed,
            ),
            make_client,
            pod_strangers(),
        )
        ending.loaded()
        try:
            http_port = service.open_http(arguments.host, arguments.http_port, security.allowed_host)
            with waiting(console, "listing the cluster"):
                service.start()
            port = service.open_extender(arguments.host, arguments.port, security.allowed_host)
            scheme = "http" if credentials is None else "https"
            console.print(f"extender: {scheme}://{arguments.host}:{port}", soft_wrap=True, highlight=False)
            console.print(f"metrics: http://{arguments.host}:{http_port}/metrics", soft_wrap=True)
            ready = {
                "pid": os.getpid(),
                "extender": {"host": arguments.host, "port": port},
                "http": {"host": arguments.host, "port": http_port},
            }
            write_json(arguments.common, ready)
            while not ending.wait(1.0):
                pass
        finally:
            end_at_last(arguments.drain_seconds + _LAST_SECONDS)
            service.stop(arguments.drain_seconds)
    return 0


def _check_host(arguments: ExtenderArguments) -> None:
    """Beyond this machine: refused when strict, else with a warning, unless callers show a certificate."""
    security = arguments.security
    if security.tls_client_ca is not None or is_loopback(arguments.host):
        return
    can = "have pods bound" if arguments.bind else "ask where pods would go"
    says = f"anyone who reaches {arguments.host} can {can}; give --tls-client-ca, or listen on 127.0.0.1"
    if security.strict:
        raise UsageError(f"--strict: {says}")
    print(f"proreus: WARNING: {says}", file=sys.stderr, flush=True)
