"""What each language model of a cluster has to do: who gets the next instance of a pool, and who loses one.

Work counts as it comes, over a minute. What is planned at one moment says little of a model whose prompts are
computed within a second: all starts of a climb went to whoever had a prompt at hand just then.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F64, I64, Bool
from proreus.worlds.inference.model.cluster import ROLES, InstanceKind, Role
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cluster import InferenceCluster
from proreus.worlds.inference.simulation.throughput import ability_of
from proreus.worlds.inference.state.observation import Ability

_WINDOW = 60.0
"""Seconds over which work is counted."""
_COMING = (c.PROVISIONING, c.LOADING, c.WARMING, c.ACTIVE)


def coming(fleet: I64, roles: tuple[Role, ...]) -> Bool:
    """[instances] active or starting ones of pools."""
    tags = [ROLES.index(role) for role in roles]
    return np.isin(fleet[:, c.STATUS], _COMING) & np.isin(fleet[:, c.TAG], tags)


def models_of(cluster: InferenceCluster) -> int:
    """How many language models the cluster serves."""
    return len({kind.model.name for kind in cluster.spec.kinds})


def sharing(cluster: InferenceCluster, role: Role) -> tuple[Role, ...]:
    """The pools that do each other's work: all where the router lends instances, else each for itself."""
    return ROLES if cluster.spec.scheduler == "mixed_pool" else (role,)


def counts_by_model(cluster: InferenceCluster, roles: tuple[Role, ...]) -> I64:
    """[models] active or starting instances of pools."""
    fleet = cluster.run.fleet
    return np.bincount(fleet[coming(fleet, roles), c.OF_MODEL], minlength=models_of(cluster))


def work_by_model(cluster: InferenceCluster, roles: tuple[Role, ...]) -> F64:
    """[models] instances of pools that what came lately, and prompts that wait, keep busy."""
    trace, models = cluster.trace, models_of(cluster)
    seconds = min(max(cluster.now, 1.0), _WINDOW)
    first, end = np.searchsorted(trace.arrival, [cluster.now - seconds, cluster.now])
    lately = slice(int(first), int(end))
    work = np.zeros(models)
    if roles != ("token",):
        prompts = np.bincount(trace.model[lately], trace.prompt[lately], models) + _waiting(cluster, roles)
        work += prompts / [ability.prompt_tokens for ability in abilities_by_model(cluster, "prompt")]
    if roles != ("prompt",):
        outputs = np.bincount(trace.model[lately], trace.output[lately], models)
        work += outputs / [ability.output_tokens for ability in abilities_by_model(cluster, "token")]
    return work / seconds


def abilities_by_model(cluster: InferenceCluster, role: Role) -> list[Ability]:
    """Of an instance of a pool, for each model that it serves."""
    trace, run = cluster.trace, cluster.run
    context = int(trace.prompt.mean() + trace.output.mean() / 2)
    kinds = [_kind(cluster, role, model) for model in range(models_of(cluster))]
    return [
        ability_of(kind, (run.timing, cluster.timing_number(kind)), cluster.kv_bytes(kind), context)
        for kind in kinds
    ]


def _kind(cluster: InferenceCluster, role: Role, model: int) -> InstanceKind:
    """That a model began with in a pool, else in any."""
    names = [group.kind for group in cluster.spec.groups if group.role in (role, "mixed")]
    names += [kind.name for kind in cluster.spec.kinds]
    name = next(name for name in names if cluster.model_number(name) == model)
    return next(kind for kind in cluster.spec.kinds if kind.name == name)


def _waiting(cluster: InferenceCluster, roles: tuple[Role, ...]) -> F64:
    """[models] tokens of prompts that are planned on instances, or wait at the router."""
    fleet, slots, models = cluster.run.fleet, cluster.run.slot, models_of(cluster)
    mine = coming(fleet, roles)
    tokens = np.bincount(fleet[mine, c.OF_MODEL], fleet[mine, c.PLANNED_TOKENS], models).astype(np.float64)
    routed = slots[:, c.PHASE] == c.AT_ROUTER
    tokens += np.bincount(slots[routed, c.MODEL], slots[routed, c.PROMPT], models)
    return tokens
