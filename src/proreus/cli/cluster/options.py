"""From the flags of `proreus up` and `proreus agent` to an engine's options; needs the extra `engine`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from proreus.cli.cluster.flags import Deciding, Judging, Nodes, Silence
from proreus.engine.agents.nodes.lifecycle import Patience
from proreus.engine.agents.promoting.core import GateOptions
from proreus.engine.agents.promoting.promoter import PromotionOptions
from proreus.engine.agents.scheduling.core import SchedulingOptions
from proreus.engine.api.identities import read_tokens
from proreus.engine.api.options import ApiOptions
from proreus.engine.objects.schedulers import Chosen
from proreus.engine.running import SimulatedNodes
from proreus.listening.credentials import check_credentials
from proreus.model.files import check_writable
from proreus.worlds.pods.policies.catalogue import PolicyOptions, make_policy

if TYPE_CHECKING:
    from proreus.cli.up import UpArguments

_CONTEST = "proreus.worlds.pods.training.contest:contest"


def node_options(nodes: Nodes, prefix: str, seed: int) -> SimulatedNodes:
    """The nodes that this process runs."""
    return SimulatedNodes(
        tuple(f"{prefix}{place + 1}" for place in range(nodes.nodes)), nodes.amounts(), seed
    )


def deciding_options(deciding: Deciding, seed: int, models: Path | None = None) -> SchedulingOptions:
    """Who decides; a policy that is not known is told before anything starts."""
    for name in (deciding.scheduler, deciding.shadow):
        if name:
            make_policy(name, PolicyOptions(), seed)
    chosen = Chosen(deciding.scheduler, deciding.shadow, deciding.deadline_ms)
    return SchedulingOptions(default=chosen, models=deciding.models or models, seed=seed)


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
