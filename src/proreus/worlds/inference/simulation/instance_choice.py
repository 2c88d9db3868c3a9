"""Which kind of instance a pool gets next, and which instance it loses, where kinds and models differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from proreus.kernels.arrays import I64
from proreus.model.errors import UsageError, unknown_name
from proreus.worlds.inference.model.cluster import ROLES, InstanceKind, Role
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


def kinds_like(
    cluster: InferenceCluster,
    role: Role,
    config: str | Mapping[str, Any] | None,
    parallelism: int | Mapping[str, Any] | None,
    server_sku: str | None,
) -> list[str]:
    """Kinds that are as a start asks for, the best first; a UsageError names what no kind has."""
    asked: dict[str, Any] = {"name": config} if isinstance(config, str) else dict(config or {})
    for field, value in (("parallelism", parallelism), ("server_sku", server_sku)):
        if value is not None:
            if field in asked and _plain(field, asked[field]) != _plain(field, value):
                raise UsageError(f"{field}: {value!r} is not the {asked[field]!r} of instance_cfg")
            asked[field] = value
    usual = kinds_by_need(cluster, role)
    if not asked:
        return usual
    kinds = list(cluster.spec.kinds)
    if "name" not in asked and "model" not in asked:
        kinds = [kind for kind in kinds if cluster.model_number(kind.name) == cluster.model_number(usual[0])]
    for field, value in asked.items():
        if field not in _FIELDS:
            raise unknown_name("field of instance_cfg", field, _FIELDS)
        alike = [kind for kind in kinds if _has(kind, field) == _plain(field, value)]
        if not alike:
            there = ", ".join(dict.fromkeys(str(_has(kind, field)) for kind in kinds))
            raise UsageError(f"{field}: no kind of instance has {_plain(field, value)!r}; there are {there}")
        kinds = alike
    return sorted((kind.name for kind in kinds), key=lambda name: usual.index(name) if name in usual else 99)


_FIELDS = (
    *("name", "model", "instance_type", "server_sku", "parallelism"),
    *("max_batch_size", "max_batch_tokens"),
)
"""Of an instance, as start states of cluster files have them."""


def _has(kind: InstanceKind, field: str) -> str | int:
    values: dict[str, str | int] = {
        "name": kind.name,
        "model": kind.model.name,
        "instance_type": kind.engine,
        "server_sku": kind.gpu.name,
        "parallelism": kind.gpus,
        "max_batch_size": kind.batch_limit,
        "max_batch_tokens": kind.token_limit,
    }
    return values[field]


def _plain(field: str, value: Any) -> Any:
    """What is asked for, as kinds have it."""
    if field == "parallelism" and isinstance(value, Mapping):
        for name in value:
            if name not in ("tensor_parallelism", "pipeline_parallelism"):
                raise unknown_name(
                    "field of parallelism", name, ("tensor_parallelism", "pipeline_parallelism")
                )
        if value.get("pipeline_parallelism", 1) != 1:
            raise UsageError("parallelism: pipelines over servers are not simulated")
        return value.get("tensor_parallelism", 1)
    return value.lower() if field == "instance_type" and isinstance(value, str) else value


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
