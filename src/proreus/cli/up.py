"""`proreus up`: a whole cluster in one process, with this machine or simulated nodes, until told to end."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from proreus.cli.arguments import CommonArguments, prepare
from proreus.cli.cluster.config_file import parse_with_config
from proreus.cli.cluster.engine_process import run_until_told, say
from proreus.cli.cluster.flags import (
    Deciding,
    Judging,
    Machine,
    Offered,
    Silence,
    SimulatedNodeFlags,
    check_together,
)
from proreus.cli.cluster.host_name import machine_name
from proreus.cli.cluster.lock import only_one, only_one_up
from proreus.cli.cluster.node_messages import (
    EXAMPLE,
    nodes_in_words,
    nodes_told,
    running_on,
    say_left_behind,
    say_passed_over,
)
from proreus.cli.cluster.runtime_log import RuntimeLog, runtime_log
from proreus.cli.cluster.state_dir import (
    Address,
    kubeconfig_of,
    make_state_dir,
    state_dir,
    write_kubeconfig,
)
from proreus.cli.cluster.tokens import first_token
from proreus.cli.compile_progress import compiling_said
from proreus.cli.output import new_console, write_json
from proreus.cli.program_name import program_name
from proreus.cli.signals import told_to_end
from proreus.httpserver.host_names import bare, is_loopback
from proreus.httpserver.sockets import AddressInUse
from proreus.model.errors import UsageError, WorkError, needs_extra
from proreus.version import __version__

if TYPE_CHECKING:
    from proreus.engine.cluster import Engine, EngineOptions

_log = logging.getLogger(__name__)
PORT = 6480
NODE_PREFIX = "node-"
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
_DESCRIPTION = """A cluster with this machine as its node: API, store, agents, and a live dashboard.

What it keeps lies in a folder; the same command goes on where it was. Ctrl-C ends it, and leaves containers
running; `proreus down` stops these, too. With --nodes its nodes are simulated, and nothing is run.

Example: proreus up --runtime process"""


@dataclass(frozen=True)
class UpSecurity:
    """Who may ask."""

    token_file: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Answer only those who send a token of this file, whose lines are token,name,role (admin, agent or
    viewer). Without it only this machine is answered: whoever has a token of those that are made in the
    folder of the cluster."""
    tls_cert: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Speak TLS with this certificate (PEM), and nothing else. Without it TLS is spoken with a certificate
    that an authority in the folder of the cluster signs, and with this machine also plain HTTP."""
    tls_key: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """The certificate's private key (PEM)."""
    allowed_host: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME")] = ()
    """Names under which the API is asked, besides localhost and addresses of loopback."""
    audit_log: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write down every change and refusal, one JSON object a line."""


@dataclass(frozen=True)
class UpArguments:
    """Flags of `proreus up`."""

    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """A YAML file whose keys are these flags, as port: 6480; what the command line says counts instead."""
    host: str = "127.0.0.1"
    """The address to listen on; beyond this machine only with --token-file."""
    port: int = PORT
    """The port of the API and of the dashboard; 0: any free one."""
    dir: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """The folder of the cluster; by default ~/.local/state/proreus (XDG_STATE_HOME)."""
    store: Annotated[str, tyro.conf.arg(metavar="URL")] = ""
    """Where objects are kept: sqlite:PATH, etcd://HOST:PORT[,HOST:PORT], or memory:. By default a SQLite file
    in the folder of the cluster."""
    accept_loss: bool = False
    """Start though the store lacks what was acknowledged, or is empty while pods run: with what is there."""
    runs: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="DIR")] = ()
    """Folders of training runs, comparisons and models that the dashboard shows as well."""
    machine: Machine = field(default_factory=Machine)
    nodes: SimulatedNodeFlags = field(default_factory=SimulatedNodeFlags)
    offered: Offered = field(default_factory=Offered)
    deciding: Deciding = field(default_factory=Deciding)
    silence: Silence = field(default_factory=Silence)
    judging: Judging = field(default_factory=Judging)
    security: UpSecurity = field(default_factory=UpSecurity)
    log: RuntimeLog = field(default_factory=RuntimeLog)
    common: CommonArguments = field(default_factory=CommonArguments)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise UsageError(f"--port {self.port} is outside 0..65535")
        check_together(self.machine, self.nodes)


def run(words: Sequence[str]) -> int:
    """Run a cluster until told to end."""
    arguments = parse_with_config(UpArguments, "proreus up", words, _DESCRIPTION)
    prepare(arguments.common)
    folder = state_dir(arguments.dir)
    with told_to_end() as ending:
        options = _options(arguments, folder)
        with (
            only_one(make_state_dir(folder)) as holder,
            _alone_on(options.store),
            runtime_log(arguments.log, folder),
        ):
            from proreus.cli.cluster.options import identity_of, measured, secured
            from proreus.web.dashboard import Dashboard, DashboardOptions

            options, own = secured(replace(options, identity=identity_of(options.store, holder)), folder)
            options = measured(options, arguments.offered)
            dashboard = Dashboard(DashboardOptions("cluster", arguments.runs))
            options = replace(options, pages=dashboard)
            _tell_of_containers(arguments, folder)
            say(arguments.common, "starting")
            _log.info("starting with %s", folder)
            with ExitStack() as starting:
                starting.enter_context(compiling_said(arguments.common))

                def announce(engine: Engine) -> None:
                    starting.close()
                    _log.info("ready: %s, the API on port %d", nodes_in_words(engine), engine.port)
                    _announce(arguments, folder, engine, own)

                try:
                    ended = run_until_told(ending, options, announce)
                except AddressInUse as error:
                    raise WorkError(f"{error}; another cluster? `--port 0` takes a free one") from error
                finally:
                    dashboard.close()
            say(arguments.common, f"ended{running_on(ended, folder)}; the same command goes on where it was")
            _log.info("ended%s", running_on(ended, folder))
    return 0


def _options(arguments: UpArguments, folder: Path) -> EngineOptions:
    try:
        from proreus.cli.cluster.options import (
            Naming,
            api_options,
            deciding_options,
            node_options,
            patience_options,
            promotion_options,
        )
        from proreus.engine.cluster import EngineOptions
        from proreus.engine.store.factory import read_address
    except ModuleNotFoundError as error:
        raise UsageError(f"up {needs_extra('engine')} ({error})") from error
    store = _store(arguments, folder)
    read_address(store)  # one that cannot be meant is told before anything is made
    naming = Naming(NODE_PREFIX, machine_name(), folder, arguments.common.seed)
    return EngineOptions(
        store=store,
        nodes=node_options(arguments.machine, arguments.nodes, naming, arguments.offered),
        deciding=deciding_options(arguments.deciding, arguments.common.seed, folder.absolute() / "models"),
        api=api_options(arguments),
        patience=patience_options(arguments.silence),
        promotion=promotion_options(arguments.judging),
        accept_loss=arguments.accept_loss,
    )


def _tell_of_containers(arguments: UpArguments, folder: Path) -> None:
    """Real ones of an earlier start, which simulated nodes do not look after."""
    from proreus.cli.cluster.options import machine_options
    from proreus.engine.kubelet.runtime_factory import standing_runtime

    if arguments.nodes.nodes is not None and standing_runtime(machine_options(folder, None).root):
        say(
            arguments.common,
            "containers of this machine may run on, with nobody to look after them: "
            f"`{program_name()} down` stops them, `{program_name()} up` without --nodes takes them up",
        )


def _alone_on(store: str) -> AbstractContextManager[None]:
    from proreus.engine.store.factory import InFile, read_address

    address = read_address(store)
    return only_one_up(address.path) if isinstance(address, InFile) else nullcontext()


def _store(arguments: UpArguments, folder: Path) -> str:
    from proreus.engine.trace.reader import STORE_FILE

    return arguments.store or f"sqlite:{folder.absolute() / STORE_FILE}"


def _announce(arguments: UpArguments, folder: Path, engine: Engine, own: Path | None) -> None:
    """Write the kubeconfig, and say where everything is; own: the file of the cluster's own tokens."""
    server = _server(arguments, engine.port)
    config = kubeconfig_of(folder)
    tokens = arguments.security.token_file or own
    token = "" if tokens is None else first_token(tokens, "admin")
    known = _known_by(arguments, engine)
    write_kubeconfig(config, replace(known, server=server, token=token))
    # A browser knows nothing of the cluster's authority; who is on this machine is answered without TLS, too.
    plain = arguments.security.tls_cert is None and is_loopback(_host(arguments))
    asked = server.replace("https:", "http:", 1) if plain else server
    ready: dict[str, Any] = {
        "pid": os.getpid(),
        "api": asked,
        "page": f"{asked}/",
        "kubeconfig": str(config),
        "store": _store(arguments, folder),
        **nodes_told(engine),
    }
    program, where = program_name(), "" if arguments.dir is None else f" --dir {arguments.dir}"
    say_left_behind(arguments.common, engine)
    say_passed_over(arguments.common, engine)
    shown = "" if own is None else f"#token={first_token(own, 'viewer')}"
    console = new_console(arguments.common)
    for line in (
        f"proreus {__version__}: a cluster of {nodes_in_words(engine)}",
        f"  API          {server}",
        f"  dashboard    {asked}/{shown}",
        f"  kubeconfig   {config}",
        f"  store        {ready['store']}",
        "",
        "In another terminal:",
        f"  {program} apply -f {EXAMPLE}{where}",
        f"  {program} get pods -o wide{where}",
        f"  kubectl --kubeconfig {config} get nodes",
        "Ctrl-C ends it; the same command goes on where it was.",
    ):
        console.print(line, soft_wrap=True, highlight=False)
    write_json(arguments.common, ready)


def _server(arguments: UpArguments, port: int) -> str:
    """Its address, as clients on this machine ask for it."""
    host = _host(arguments)
    shown = f"[{bare(host)}]" if ":" in bare(host) else host
    return f"https://{shown}:{port}"


def _host(arguments: UpArguments) -> str:
    return _ANYWHERE.get(bare(arguments.host), arguments.host)


def _known_by(arguments: UpArguments, engine: Engine) -> Address:
    """The certificate by which the API is known: where it is given, the file, for others may renew it."""
    if arguments.security.tls_cert is not None:
        return Address("", authority=str(arguments.security.tls_cert))
    api = engine.options.api
    assert api is not None and api.authority is not None, "without a certificate, one is made"
    return Address("", authority_data=api.authority.certificate.read_text())
