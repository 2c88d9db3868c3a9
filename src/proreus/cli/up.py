"""`proreus up`: a whole cluster in one process, with simulated nodes, until told to end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from proreus.cli.arguments import Common, parse, prepare
from proreus.cli.cluster.flags import Deciding, Judging, Nodes, Silence
from proreus.cli.cluster.lock import Holder, only_one
from proreus.cli.cluster.place import (
    Address,
    kubeconfig_of,
    make_state_dir,
    state_dir,
    write_kubeconfig,
)
from proreus.cli.cluster.starting import run_until_told, say
from proreus.cli.output import new_console, write_json
from proreus.cli.serve import told_to_end
from proreus.listening.hosts import bare
from proreus.model.errors import UsageError, needs_extra
from proreus.version import __version__

if TYPE_CHECKING:
    from proreus.engine.running import Engine, EngineOptions

PORT = 6480
NODE_PREFIX = "node-"
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
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
    silence: Silence = field(default_factory=Silence)
    judging: Judging = field(default_factory=Judging)
    security: Security = field(default_factory=Security)
    common: Common = field(default_factory=Common)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise UsageError(f"--port {self.port} is outside 0..65535")


def run(words: Sequence[str]) -> int:
    """Run a cluster until told to end."""
    arguments = parse(UpArguments, "proreus up", words, _DESCRIPTION)
    prepare(arguments.common)
    folder = state_dir(arguments.dir)
    with told_to_end() as ending:
        options = _options(arguments, folder)
        with only_one(make_state_dir(folder)) as holder:
            options = replace(options, identity=_identity(options.store, holder))
            say(arguments.common, "starting (the first start compiles for a minute)")
            run_until_told(ending, options, lambda engine: _announce(arguments, folder, engine))
            say(arguments.common, "ended; the same command goes on where it was")
    return 0


def _options(arguments: UpArguments, folder: Path) -> EngineOptions:
    try:
        from proreus.cli.cluster.options import (
            api_options,
            deciding_options,
            node_options,
            patience_options,
            promotion_options,
        )
        from proreus.engine.running import EngineOptions
        from proreus.engine.store.opening import read_address
    except ModuleNotFoundError as error:
        raise UsageError(f"up {needs_extra('engine')} ({error})") from error
    store = _store(arguments, folder)
    read_address(store)  # one that cannot be meant is told before anything is made
    return EngineOptions(
        store=store,
        nodes=node_options(arguments.nodes, NODE_PREFIX, arguments.common.seed),
        deciding=deciding_options(arguments.deciding, arguments.common.seed, folder.absolute() / "models"),
        api=api_options(arguments),
        patience=patience_options(arguments.silence),
        promotion=promotion_options(arguments.judging),
    )


def _identity(store: str, holder: Holder) -> str:
    """Among those that stand for election; who has a file in common is on the same machine."""
    from proreus.engine.store.opening import InFile, read_address

    return holder.on_this_machine() if isinstance(read_address(store), InFile) else holder.anywhere()


def _store(arguments: UpArguments, folder: Path) -> str:
    from proreus.engine.trace.reading import STORE_FILE

    return arguments.store or f"sqlite:{folder.absolute() / STORE_FILE}"


def _announce(arguments: UpArguments, folder: Path, engine: Engine) -> None:
    """Write the kubeconfig, and say where everything is."""
    security = arguments.security
    scheme = "https" if security.tls_cert is not None else "http"
    host = _ANYWHERE.get(bare(arguments.host), arguments.host)
    shown = f"[{bare(host)}]" if ":" in bare(host) else host
    server = f"{scheme}://{shown}:{engine.port}"
    config = kubeconfig_of(folder)
    authority = "" if security.tls_cert is None else str(security.tls_cert)
    write_kubeconfig(config, Address(server, _token(security.token_file), authority))
    ready: dict[str, Any] = {
        "pid": os.getpid(),
        "api": server,
        "page": f"{server}/",
        "kubeconfig": str(config),
        "store": _store(arguments, folder),
        "nodes": arguments.nodes.nodes,
    }
    where = "" if arguments.dir is None else f" --dir {arguments.dir}"
    console = new_console(arguments.common)
    for line in (
        f"proreus {__version__}: a cluster of {arguments.nodes.nodes} simulated nodes",
        f"  API          {server}",
        f"  status page  {server}/",
        f"  kubeconfig   {config}",
        f"  store        {ready['store']}",
        "",
        "In another terminal:",
        f"  proreus apply -f examples/engine/web.yaml{where}",
        f"  proreus get pods -o wide{where}",
        f"  kubectl --kubeconfig {config} get nodes",
        "Ctrl-C ends it; the same command goes on where it was.",
    ):
        console.print(line, soft_wrap=True, highlight=False)
    write_json(arguments.common, ready)


def _token(path: Path | None) -> str:
    """The first token of an admin, for the kubeconfig; the file has been checked."""
    if path is None:
        return ""
    lines = (line.split(",") for line in path.read_text().splitlines() if not line.lstrip().startswith("#"))
    return next((parts[0].strip() for parts in lines if len(parts) == 3 and parts[2].strip() == "admin"), "")
