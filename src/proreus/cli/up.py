"""`proreus up`: a whole cluster in one process, with simulated nodes, until told to end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from proreus.cli.arguments import Common, parse, prepare
from proreus.cli.cluster.lock import only_one
from proreus.cli.cluster.place import (
    Address,
    kubeconfig_of,
    make_state_dir,
    state_dir,
    write_kubeconfig,
)
from proreus.cli.cluster.running import Deciding, Nodes, run_engine
from proreus.cli.output import new_console, write_json
from proreus.model.errors import UsageError
from proreus.version import __version__

PORT = 6480
_DESCRIPTION = """A cluster on this machine: API, store, agents, simulated nodes, and a live status page.

What it keeps lies in a folder; the same command goes on where it was. Ctrl-C ends it.

Example: proreus up --nodes 3 --scheduler kube --shadow best_fit"""


@dataclass(frozen=True)
class Security:
    """Who may ask."""

    token_file: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Answer only those who send a token of this file, whose lines are token,name,role (admin, agent or
    viewer). Without it whoever is on this machine may do everything, and nobody else can ask."""
    tls_cert: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Speak TLS with this certificate (PEM)."""
    tls_key: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """The certificate's private key (PEM)."""
    allowed_host: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME")] = ()
    """Names under which the API is asked, besides localhost and addresses of loopback."""
    audit_log: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write down every change and refusal, one JSON object a line."""


@dataclass(frozen=True)
class UpArguments:
    """Flags of `proreus up`."""

    host: str = "127.0.0.1"
    """The address to listen on; beyond this machine only with --token-file."""
    port: int = PORT
    """The port of the API and of the status page; 0: any free one."""
    dir: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """The folder of the cluster; by default ~/.local/state/proreus (XDG_STATE_HOME)."""
    store: Annotated[str, tyro.conf.arg(metavar="URL")] = ""
    """Where objects are kept: sqlite:PATH, etcd://HOST:PORT[,HOST:PORT], or memory:. By default a SQLite file
    in the folder of the cluster."""
    nodes: Nodes = field(default_factory=Nodes)
    deciding: Deciding = field(default_factory=Deciding)
    security: Security = field(default_factory=Security)
    common: Common = field(default_factory=Common)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise UsageError(f"--port {self.port} is outside 0..65535")


def run(words: Sequence[str]) -> int:
    """Run a cluster until told to end."""
    arguments = parse(UpArguments, "proreus up", words, _DESCRIPTION)
    prepare(arguments.common)
    folder = make_state_dir(state_dir(arguments.dir))
    with only_one(folder):
        run_engine(_options(arguments, folder), lambda port: _announce(arguments, folder, port))
    return 0
