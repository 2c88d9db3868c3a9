"""`proreus agent`: join this machine's nodes to a cluster through the store that it shares."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Sequence
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
    check_prefix,
    check_together,
)
from proreus.cli.cluster.host_name import machine_name
from proreus.cli.cluster.lock import LockPurpose, only_one
from proreus.cli.cluster.node_messages import (
    nodes_in_words,
    nodes_told,
    running_on,
    say_left_behind,
    say_passed_over,
)
from proreus.cli.cluster.runtime_log import RuntimeLog, runtime_log
from proreus.cli.cluster.state_dir import make_state_dir, state_dir
from proreus.cli.output import new_console, write_json
from proreus.cli.signals import told_to_end
from proreus.model.errors import UsageError, needs_extra

if TYPE_CHECKING:
    from proreus.engine.cluster import Engine, EngineOptions

_log = logging.getLogger(__name__)
_DESCRIPTION = """This machine as a node of a cluster that another machine runs on the same store.

With --standby it also decides and keeps workloads going when the other process is gone; only one of them does
at a time. With --nodes it brings simulated nodes instead.

Example: proreus agent --store etcd://10.0.0.5:2379 --standby"""


@dataclass(frozen=True)
class AgentArguments:
    """Flags of `proreus agent`."""

    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """A YAML file whose keys are these flags; what the command line says counts instead."""
    store: Annotated[str, tyro.conf.arg(metavar="URL")] = ""
    """The store of the cluster: etcd://HOST:PORT[,HOST:PORT], or sqlite:PATH on the same machine."""
    name: str = ""
    """What the node is called, by default as this machine; simulated ones NAME-1, NAME-2 and so on."""
    dir: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """The folder of this agent; by default one below ~/.local/state/proreus/agents (XDG_STATE_HOME) for each
    name and store."""
    port: int = 0
    """Where the API of the cluster asks for logs, exec and images of pods here; 0: any free port."""
    standby: bool = False
    """Also run the scheduling and task agents; they wait while those of another process lead."""
    machine: Machine = field(default_factory=Machine)
    nodes: SimulatedNodeFlags = field(default_factory=SimulatedNodeFlags)
    offered: Offered = field(default_factory=Offered)
    deciding: Deciding = field(default_factory=Deciding)
    silence: Silence = field(default_factory=Silence)
    judging: Judging = field(default_factory=Judging)
    log: RuntimeLog = field(default_factory=RuntimeLog)
    common: CommonArguments = field(default_factory=CommonArguments)

    def __post_init__(self) -> None:
        if not self.store:
            raise UsageError("--store: say which store the cluster shares, as etcd://10.0.0.5:2379")
        if self.store.startswith("memory:"):
            raise UsageError("--store memory: cannot be shared; use etcd:// or sqlite:")
        if not 0 <= self.port <= 65535:
            raise UsageError(f"--port {self.port} is outside 0..65535")
        check_together(self.machine, self.nodes)


def run(words: Sequence[str]) -> int:
    """Run nodes until told to end."""
    arguments = parse_with_config(AgentArguments, "proreus agent", words, _DESCRIPTION)
    prepare(arguments.common)
    name = arguments.name or machine_name()
    check_prefix("--name", name)
    folder = arguments.dir or _usual_folder(name, arguments.store)
    with told_to_end() as ending:
        options = _options(arguments, name, folder)
        with (
            only_one(make_state_dir(folder), LockPurpose.AGENT) as holder,
            runtime_log(arguments.log, folder),
        ):
            from proreus.cli.cluster.options import identity_of, measured

            say(arguments.common, "starting")
            _log.info("starting %s with %s", name, folder)
            options = replace(options, identity=identity_of(options.store, holder))
            options = measured(options, arguments.offered)
            ended = run_until_told(ending, options, lambda engine: _announce(arguments, name, engine))
            say(arguments.common, f"ended{running_on(ended, folder)}")
            _log.info("ended%s", running_on(ended, folder))
    return 0


def _usual_folder(name: str, store: str) -> Path:
    """An agent of another cluster has another folder: each would end the other's pods."""
    which = hashlib.sha256(store.encode()).hexdigest()[:8]
    return state_dir(None) / "agents" / f"{name}-{which}"


def _options(arguments: AgentArguments, name: str, folder: Path) -> EngineOptions:
    try:
        from proreus.cli.cluster.options import (
            Naming,
            deciding_options,
            node_options,
            patience_options,
            promotion_options,
        )
        from proreus.engine.cluster import EngineOptions
        from proreus.engine.store.factory import read_address
    except ModuleNotFoundError as error:
        raise UsageError(f"agent {needs_extra('engine')} ({error})") from error
    read_address(arguments.store)  # one that cannot be meant is told before anything starts
    naming = Naming(f"{name}-", name, folder, arguments.common.seed)
    return EngineOptions(
        store=arguments.store,
        nodes=node_options(arguments.machine, arguments.nodes, naming, arguments.offered),
        deciding=(deciding_options(arguments.deciding, arguments.common.seed) if arguments.standby else None),
        api=None,
        patience=patience_options(arguments.silence),
        joins=True,
        promotion=promotion_options(arguments.judging),
        door_port=arguments.port,
    )


def _announce(arguments: AgentArguments, name: str, engine: Engine) -> None:
    ready: dict[str, Any] = {"pid": os.getpid(), "store": arguments.store, "name": name, **nodes_told(engine)}
    say_left_behind(arguments.common, engine)
    say_passed_over(arguments.common, engine)
    console = new_console(arguments.common)
    console.print(f"joined {nodes_in_words(engine)}", highlight=False, soft_wrap=True)
    write_json(arguments.common, ready)
