"""`proreus kube scaler`: replicas of Deployments by any controller, in clusters without KEDA."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from proreus.cli.arguments import CommonArguments, parse, prepare
from proreus.cli.kube_arguments import ClusterArguments, client_maker
from proreus.cli.output import new_console, write_json
from proreus.cli.signals import end_at_last, told_to_end
from proreus.model.errors import UsageError, needs_extra

_HTTP_PORT = 8911
_LAST_SECONDS = 5.0
_DESCRIPTION = """Scales Deployments and StatefulSets that ask for it with annotations.

scaler.proreus.io/enabled: "true", and what a trigger of KEDA has as metadata, as scaler.proreus.io/policy.
What they may say: docs/serving.md. Guard rails, fallback and shadow are those of proreus serve scaler.

Example: proreus kube scaler --namespace llm --dry-run"""


@dataclass(frozen=True)
class ScalerArguments:
    """Flags of `proreus kube scaler`."""

    namespace: str = ""
    """Only objects of this namespace; by default of all."""
    dry_run: bool = False
    """Write nothing; what would be written is at /metrics and in the log."""
    interval: float = 5.0
    """Seconds between two looks at all objects."""
    policy: Annotated[tuple[str, ...], tyro.conf.arg(metavar="PATH|FILE.py:NAME")] = ()
    """Runs, checkpoints and policies of your own that annotations may name, just as they are named here."""
    metrics_host: Annotated[tuple[str, ...], tyro.conf.arg(metavar="PATTERN")] = ()
    """Hosts that annotations may have asked for metrics, as *.llm.svc; without any, all but link-local."""
    shadow_log: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Where objects in shadow write what they would have done, a JSON object a line."""
    lease: Annotated[str, tyro.conf.arg(metavar="NAMESPACE/NAME")] = "kube-system/proreus-scaler"
    """Of several processes the one with this Lease writes; none: this is the only one."""
    stop_file: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """A kill switch: nothing is written while this file is there."""
    stop_config_map: Annotated[str, tyro.conf.arg(metavar="NAMESPACE/NAME")] = "kube-system/proreus-scaler"
    """A kill switch: nothing is written while its key `stop` says true."""
    host: str = "127.0.0.1"
    """The address of /metrics and /health."""
    http_port: int = _HTTP_PORT
    """Of /metrics and /health. 0: any free one."""
    cluster: ClusterArguments = field(default_factory=ClusterArguments)
    common: CommonArguments = field(default_factory=CommonArguments)

    def __post_init__(self) -> None:
        if not 0.1 <= self.interval <= 3600:
            raise UsageError(f"--interval {self.interval} is outside 0.1..3600")
        if not 0 <= self.http_port <= 65_535:
            raise UsageError(f"--http-port {self.http_port} is outside 0..65535")
        for name in ("lease", "stop_config_map"):
            value = getattr(self, name)
            if value.count("/") != 1 and not (name == "lease" and value == "none"):
                raise UsageError(f"--{name} {value}: say NAMESPACE/NAME")


def run(words: Sequence[str]) -> int:
    """Scale until told to end."""
    arguments = parse(ScalerArguments, "proreus kube scaler", words, _DESCRIPTION)
    prepare(arguments.common)
    make_client = client_maker(arguments.cluster, "scaler")
    try:
        from proreus.kubeagents.scaler.agent import ScalerAgentOptions, scale
        from proreus.serving.scaler.http_fetcher import FetchLimits
        from proreus.serving.scaler.service import ScalerService, ScalerServiceOptions
    except ImportError as error:
        raise UsageError(f"kube scaler {needs_extra('serve')} ({error})") from error
    from proreus.worlds.inference.simulation.throughput import profiled_ability

    lease = None if arguments.lease == "none" else _pair(arguments.lease)
    options = ScalerAgentOptions(
        identity=f"{socket.gethostname()}_{os.getpid()}",
        namespace=arguments.namespace,
        lease=lease,
        switch=_pair(arguments.stop_config_map),
        stop_file=arguments.stop_file,
        dry_run=arguments.dry_run,
        interval=arguments.interval,
    )
    console = new_console(arguments.common)
    with told_to_end() as ending:
        service = ScalerService(
            ScalerServiceOptions(
                profile=profiled_ability,
                policies=arguments.policy,
                fetch=FetchLimits(hosts=arguments.metrics_host),
                shadow_log=arguments.shadow_log,
                seed=arguments.common.seed,
            )
        )
        profiled_ability("llama3-8b", "h100-80gb", 1)  # compiled now, not when a service waits for replicas
        ending.loaded()
        try:
            port = service.open_http(arguments.host, arguments.http_port)

            def ready() -> None:
                console.print(f"scaling; metrics: {arguments.host}:{port}/metrics", soft_wrap=True)
                told = {"pid": os.getpid(), "http": {"host": arguments.host, "port": port}}
                write_json(arguments.common, told)

            asyncio.run(scale(make_client, service, options, ending, ready))
        finally:
            end_at_last(_LAST_SECONDS)
            service.stop(1.0)
    return 0


def _pair(text: str) -> tuple[str, str]:
    namespace, _, name = text.partition("/")
    return namespace, name
