"""`proreus agent`: join this machine's nodes to a cluster through the store that it shares."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from proreus.cli.arguments import Common, parse, prepare
from proreus.cli.cluster.flags import Deciding, Judging, Nodes, Silence, check_prefix
from proreus.cli.cluster.starting import run_until_told, say
from proreus.cli.output import new_console, write_json
from proreus.cli.serve import told_to_end
from proreus.model.errors import UsageError, needs_extra

if TYPE_CHECKING:
    from proreus.engine.running import Engine, EngineOptions

_DESCRIPTION = """Nodes of this machine, joined to a cluster that another machine runs on the same store.

With --standby it also decides and keeps workloads going when the other process is gone; only one of them does
at a time.

Example: proreus agent --store etcd://10.0.0.5:2379 --nodes 10 --standby"""


@dataclass(frozen=True)
class AgentArguments:
    """Flags of `proreus agent`."""

    store: Annotated[str, tyro.conf.arg(metavar="URL")] = ""
    """The store of the cluster: etcd://HOST:PORT[,HOST:PORT], or sqlite:PATH on the same machine."""
    name: str = ""
    """Nodes are called NAME-1, NAME-2 and so on; by default the name of this machine."""
    standby: bool = False
    """Also run the scheduling and task agents; they wait while those of another process lead."""
    nodes: Nodes = field(default_factory=Nodes)
    deciding: Deciding = field(default_factory=Deciding)
    silence: Silence = field(default_factory=Silence)
    judging: Judging = field(default_factory=Judging)
    common: Common = field(default_factory=Common)

    def __post_init__(self) -> None:
        if not self.store:
            raise UsageError("--store: say which store the cluster shares, as etcd://10.0.0.5:2379")
        if self.store.startswith("memory:"):
            raise UsageError("--store memory: cannot be shared; use etcd:// or sqlite:")


def run(words: Sequence[str]) -> int:
    """Run nodes until told to end."""
    arguments = parse(AgentArguments, "proreus agent", words, _DESCRIPTION)
    prepare(arguments.common)
    name = arguments.name or re.sub(r"[^a-z0-9.-]+", "-", socket.gethostname().lower()).strip("-.") or "agent"
    check_prefix("--name", name)
    with told_to_end() as ending:
        options = _options(arguments, name)
        say(arguments.common, "starting")
        run_until_told(ending, options, lambda engine: _announce(arguments, name, engine))
    return 0


def _options(arguments: AgentArguments, name: str) -> EngineOptions:
    try:
        from proreus.cli.cluster.options import (
            deciding_options,
            node_options,
            patience_options,
            promotion_options,
        )
        from proreus.engine.running import EngineOptions
        from proreus.engine.store.opening import read_address
    except ModuleNotFoundError as error:
        raise UsageError(f"agent {needs_extra('engine')} ({error})") from error
    read_address(arguments.store)  # one that cannot be meant is told before anything starts
    return EngineOptions(
        store=arguments.store,
        nodes=node_options(arguments.nodes, f"{name}-", arguments.common.seed),
        deciding=(deciding_options(arguments.deciding, arguments.common.seed) if arguments.standby else None),
        api=None,
        patience=patience_options(arguments.silence),
        promotion=promotion_options(arguments.judging),
    )


def _announce(arguments: AgentArguments, name: str, engine: Engine) -> None:
    del engine
    count = arguments.nodes.nodes
    ready: dict[str, Any] = {"pid": os.getpid(), "store": arguments.store, "nodes": count, "name": name}
    which = f"{name}-1" if count == 1 else f"{name}-1 to {name}-{count}"
    console = new_console(arguments.common)
    console.print(f"joined {count} simulated nodes ({which})", highlight=False, soft_wrap=True)
    write_json(arguments.common, ready)
