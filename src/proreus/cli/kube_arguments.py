"""Flags by which every action of `proreus kube` finds its cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from proreus.model.errors import UsageError, needs_extra

if TYPE_CHECKING:
    from proreus.kubeclient.client import KubeClient


@dataclass(frozen=True)
class ClusterArguments:
    """Which cluster, and as whom."""

    kubeconfig: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """As kubectl has it; else $KUBECONFIG, ~/.kube/config, or the service account of the Pod."""
    context: str = ""
    """Of the kubeconfig; by default the current one."""
    qps: float = 50.0
    """Requests a second to the API server, at most; twice as many at once."""

    def __post_init__(self) -> None:
        if not 0 < self.qps <= 100_000:
            raise UsageError(f"--qps {self.qps} is outside 0..100000")


def client_maker(arguments: ClusterArguments, agent: str) -> Callable[[], KubeClient]:
    """What makes a client in the loop that will use it; agent: as whom it is known in the server's log."""
    try:
        from proreus.kubeclient.client import ClientOptions, KubeClient
        from proreus.kubeclient.config import load_config
    except ImportError as error:
        raise UsageError(f"kube {needs_extra('engine')} ({error})") from error
    config = load_config(arguments.kubeconfig, arguments.context)
    options = ClientOptions(qps=arguments.qps, burst=max(1, round(2 * arguments.qps)))
    return lambda: KubeClient.of(config, options, agent=f"proreus-{agent}")
