"""From the flags of `proreus up` and `proreus agent` to an engine's options; needs the extra `engine`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from proreus.cli.cluster.flags import (
    NOTHING_OFFERED,
    Deciding,
    Judging,
    Machine,
    Offered,
    Silence,
    SimulatedNodeFlags,
)
from proreus.cli.cluster.host_name import machine_address, machine_name
from proreus.cli.cluster.lock import Holder
from proreus.cli.cluster.tokens import own_tokens
from proreus.engine.api.server.authentication import read_tokens
from proreus.engine.api.server.options import ApiOptions
from proreus.engine.controllers.nodes.lifecycle import Patience
from proreus.engine.controllers.promotion.controller import PromotionOptions
from proreus.engine.controllers.promotion.core import GateOptions
from proreus.engine.kubelet.bandwidth import machine_bandwidth
from proreus.engine.kubelet.runtime_factory import check_runtime, noted_socket
from proreus.engine.node_host import MachineNode, SimulatedNodes
from proreus.engine.objects.scheduler_config import Chosen
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.store.factory import InFile, read_address
from proreus.httpserver.certificate_authority import Authority
from proreus.httpserver.host_names import bare
from proreus.httpserver.tls import check_credentials
from proreus.model.files import check_writable
from proreus.model.resources import DISK, NETWORK

if TYPE_CHECKING:
    from proreus.cli.up import UpArguments
    from proreus.engine.cluster import EngineOptions
    from proreus.engine.scheduler.core import SchedulingOptions

_ANY_ADDRESS = ("0.0.0.0", "::", "")
_CONTEST = "proreus.worlds.pods.training.duel:contest"


@dataclass(frozen=True)
class Naming:
    """What this process calls its nodes, and where it keeps what they need."""

    prefix: str
    """Simulated nodes are called so, with numbers behind it."""
    machine: str
    """This machine is called so."""
    folder: Path
    seed: int


def node_options(
    machine: Machine, nodes: SimulatedNodeFlags, naming: Naming, offered: Offered = NOTHING_OFFERED
) -> SimulatedNodes | MachineNode:
    """The nodes that this process runs."""
    if nodes.nodes is not None:
        names = tuple(f"{naming.prefix}{place + 1}" for place in range(nodes.nodes))
        return SimulatedNodes(names, nodes.amounts() | offered.some(), naming.seed, naming.prefix)
    options = replace(
        machine_options(naming.folder, machine.socket),
        host_paths=machine.allow_host_path,
        allow_privileged=machine.allow_privileged,
        address=machine_address(),
    )
    check_runtime(machine.runtime, options)
    options = replace(options, offered=offered.some())
    return MachineNode(naming.machine, options, machine.runtime)


def measured(options: EngineOptions, offered: Offered) -> EngineOptions:
    """With the machine's disk and network, where nobody said what they carry; writes in its folder."""
    stated, node = offered.amounts(), options.nodes
    if not isinstance(node, MachineNode) or {DISK, NETWORK} <= stated.keys():
        return options
    carried = machine_bandwidth(node.options.root)
    offers = {name: amount for name, amount in carried.items() if name not in stated} | offered.some()
    return replace(options, nodes=replace(node, options=replace(node.options, offered=offers)))


def identity_of(store: str, holder: Holder) -> str:
    """Among those that share the store; who has a file in common is on the same machine."""
    return holder.on_this_machine() if isinstance(read_address(store), InFile) else holder.anywhere()


def machine_options(folder: Path, socket: Path | None) -> MachineOptions:
    """Of this machine as a node of the cluster in the folder; the socket is by default the last one."""
    options = MachineOptions(folder.absolute() / "node")
    path = socket or noted_socket(options.root)
    return options if path is None else replace(options, socket=path.absolute())


def deciding_options(deciding: Deciding, seed: int, models: Path | None = None) -> SchedulingOptions:
    """Who decides; a policy that is not known is told before anything starts."""
    # Only here: a process that decides nothing starts without the compiler of what does.
    from proreus.engine.scheduler.core import SchedulingOptions
    from proreus.worlds.pods.policies.wire_format import check_policy, pod_strangers

    for name in (deciding.scheduler, deciding.shadow):
        if name:
            check_policy(name, pod_strangers())
    chosen = Chosen(deciding.scheduler, deciding.shadow, deciding.deadline_ms)
    options = SchedulingOptions(
        default=chosen,
        models=deciding.models or models,
        seed=seed,
        policy_folders=deciding.policy_folder,
    )
    _ = options.folders  # those that others may change are told before anything starts, too
    return options


def patience_options(silence: Silence) -> Patience:
    """How long nodes that fall silent are waited for."""
    return Patience(grace=silence.node_grace, toleration=silence.evict_after)


def promotion_options(judging: Judging) -> PromotionOptions:
    """How candidates are judged; the engine knows no simulator, so it is told who plays."""
    gate = GateOptions(least_pods=judging.judge_pods)
    return PromotionOptions(_CONTEST, judging.judge_every, gate)


def api_options(arguments: UpArguments) -> ApiOptions:
    """Where the API listens, and who may ask."""
    security = arguments.security
    if security.audit_log is not None:
        check_writable(security.audit_log)
    return ApiOptions(
        host=arguments.host,
        port=arguments.port,
        tokens=None if security.token_file is None else read_tokens(security.token_file),
        allowed_hosts=security.allowed_host,
        credentials=check_credentials(security.tls_cert, security.tls_key),
        audit=security.audit_log,
    )


def secured(options: EngineOptions, folder: Path) -> tuple[EngineOptions, Path | None]:
    """With tokens and a certificate of its own where none were given; and where those tokens are.

    Whoever may write pods, or choose who schedules them, runs something as this user, and every user of a
    machine reaches its loopback.
    """
    api, own = options.api, None
    if api is None:
        return options, None
    if api.tokens is None:
        own = own_tokens(folder)
        api = replace(api, tokens=read_tokens(own))
    if api.credentials is None:
        authority = Authority(folder.absolute() / "tls", _names(api))
        api = replace(api, authority=authority, plain_here=True)
    return replace(options, api=api), own


def _names(api: ApiOptions) -> tuple[str, ...]:
    """That the certificate of the API is good for: what it listens on, and what it is told to answer to."""
    here = ("localhost", "127.0.0.1", "::1")
    if bare(api.host) in _ANY_ADDRESS:
        return (*here, machine_name(), machine_address(), *api.allowed_hosts)
    return (*here, api.host, *api.allowed_hosts)
