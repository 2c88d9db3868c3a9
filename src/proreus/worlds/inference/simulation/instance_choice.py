"""Which kind of instance a pool gets next, and which instance it loses, where kinds and models differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from proreus.model.errors import UsageError, unknown_name
from proreus.worlds.inference.model.cluster import InstanceKind, Role
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cluster import InferenceCluster
from proreus.worlds.inference.simulation.model_loads import counts_by_model, models_of, sharing, work_by_model


def kinds_by_need(cluster: InferenceCluster, role: Role) -> list[str]:
    """Kinds that the run began with in a pool: of the model that needs one most, in the order of its groups.

    Need is the work of a model over its instances, active or starting.
    """
    groups = [group.kind for group in cluster.spec.groups if group.role == role]
    names = list(dict.fromkeys(groups)) or [cluster.spec.kinds[0].name]
    if len({cluster.model_number(name) for name in names}) == 1:
        return names
    roles = sharing(cluster, role)
    work, counts = work_by_model(cluster, roles), counts_by_model(cluster, roles)
    need = np.where(counts > 0, work / np.maximum(counts, 1), np.where(work > 0.0, np.inf, 0.0))
    return sorted(names, key=lambda name: (-need[cluster.model_number(name)], names.index(name)))


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


def least_needed_first(cluster: InferenceCluster, role: Role, rows: list[int], least: int) -> list[int]:
    """The rows by whose model would be least busy without one more of them, each model's in their order.

    Those without which a model would have fewer than `least` come at the end.
    """
    if models_of(cluster) == 1:
        return rows
    models = cluster.run.fleet[:, c.OF_MODEL]
    waiting = {model: [row for row in rows if models[row] == model] for model in range(models_of(cluster))}
    roles = sharing(cluster, role)
    work, counts = work_by_model(cluster, roles), counts_by_model(cluster, roles)
    own = counts_by_model(cluster, (role,))
    ordered: list[int] = []
    while len(ordered) < len(rows):
        busy = [
            (own[model] <= least, work[model] / max(counts[model] - 1, 0.01), model)
            for model, mine in waiting.items()
            if mine
        ]
        model = min(busy)[-1]
        ordered.append(waiting[model].pop(0))
        counts[model], own[model] = counts[model] - 1, own[model] - 1
    return ordered
