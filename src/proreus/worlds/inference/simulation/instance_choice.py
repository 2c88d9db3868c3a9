"""Which kind of instance a pool gets next, and which instance it loses, where kinds and models differ."""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import I64
from proreus.worlds.inference.model.cluster import ROLES, Role
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cluster import InferenceCluster

_COMING = (c.PROVISIONING, c.LOADING, c.WARMING, c.ACTIVE)


def kinds_by_need(cluster: InferenceCluster, role: Role) -> list[str]:
    """Kinds that the run began with in a pool: of the model that needs one most, in the order of its groups.

    Need is what each instance of a model, active or starting, has planned: tokens of prompts, or KV memory.
    """
    groups = [group.kind for group in cluster.spec.groups if group.role == role]
    names = list(dict.fromkeys(groups)) or [cluster.spec.kinds[0].name]
    model = {kind.name: kind.model.name for kind in cluster.spec.kinds}
    models = list(dict.fromkeys(model[name] for name in names))
    if len(models) == 1:
        return names
    numbers = list(dict.fromkeys(kind.model.name for kind in cluster.spec.kinds))
    need = {one: _need(cluster, role, numbers.index(one)) for one in models}
    return sorted(names, key=lambda name: (-need[model[name]], names.index(name)))


def _need(cluster: InferenceCluster, role: Role, model: int) -> float:
    fleet = cluster.run.fleet
    mine = coming(fleet, role) & (fleet[:, c.OF_MODEL] == model)
    slots = cluster.run.slot
    waits = int(((slots[:, c.PHASE] == c.AT_ROUTER) & (slots[:, c.MODEL] == model)).sum())
    if not mine.any():
        return float("inf") if waits else 0.0
    rows = fleet[mine]
    if role == "token":
        room = np.maximum(rows[:, c.CAPACITY] - rows[:, c.WEIGHTS], 1)
        return float(np.mean((rows[:, c.PLANNED_MEMORY] - rows[:, c.WEIGHTS]) / room)) + waits
    return float(np.mean(rows[:, c.PLANNED_TOKENS] / rows[:, c.TOKEN_LIMIT])) + waits


def coming(fleet: I64, role: Role) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """[instances] active or starting ones of a pool."""
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = np.isin(fleet[:, c.STATUS], _COMING) & (
        fleet[:, c.TAG] == ROLES.index(role)
    )
    return found


def last_of_models_last(cluster: InferenceCluster, role: Role, rows: list[int], least: int) -> list[int]:
    """The rows in their order, but those without which a model would have fewer than `least` at the end."""
    fleet = cluster.run.fleet
    there = fleet[coming(fleet, role), c.OF_MODEL]
    spare = {int(model): int((there == model).sum()) - least for model in np.unique(there)}
    first: list[int] = []
    last: list[int] = []
    for row in rows:
        model = int(fleet[row, c.OF_MODEL])
        spare[model] -= 1
        (first if spare[model] >= 0 else last).append(row)
    return [*first, *last]
