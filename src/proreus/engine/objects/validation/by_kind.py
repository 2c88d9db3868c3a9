"""By kind: what is filled in, what is checked, and what may not change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from proreus.engine.objects import kinds
from proreus.engine.objects.errors import Cause
from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.validation import cluster_objects, config_objects, pods, workloads
from proreus.engine.objects.validation.error_list import Problems
from proreus.engine.objects.validation.metadata import check_metadata, check_metadata_update
from proreus.engine.objects.validation.status import check_status

_Map = dict[str, Any]


def _as_it_is(obj: _Map) -> _Map:
    return obj


def _no_check(obj: _Map, problems: Problems) -> None:
    """Nothing beyond its structure and metadata."""


def _no_update_check(old: _Map, new: _Map, problems: Problems) -> None:
    """All of it may change."""


@dataclass(frozen=True)
class Rules:
    """Of one kind."""

    defaulted: Callable[[_Map], _Map] = _as_it_is
    check: Callable[[_Map, Problems], None] = _no_check
    check_update: Callable[[_Map, _Map, Problems], None] = _no_update_check


RULES: Mapping[Kind, Rules] = MappingProxyType(
    {
        kinds.POD: Rules(pods.defaulted_pod, pods.check_pod, pods.check_pod_update),
        kinds.NODE: Rules(cluster_objects.defaulted_node, cluster_objects.check_node),
        kinds.NAMESPACE: Rules(cluster_objects.defaulted_namespace),
        kinds.EVENT: Rules(check=config_objects.check_event),
        kinds.CONFIG_MAP: Rules(
            check=config_objects.check_config_map, check_update=config_objects.check_fixed
        ),
        kinds.SECRET: Rules(
            config_objects.defaulted_secret, config_objects.check_secret, config_objects.check_secret_update
        ),
        kinds.SERVICE_ACCOUNT: Rules(),
        kinds.SERVICE: Rules(config_objects.defaulted_service, config_objects.check_service),
        kinds.DEPLOYMENT: Rules(
            workloads.defaulted_deployment, workloads.check_deployment, workloads.check_selector_kept
        ),
        kinds.REPLICA_SET: Rules(
            workloads.defaulted_replica_set, workloads.check_replica_set, workloads.check_selector_kept
        ),
        kinds.JOB: Rules(workloads.defaulted_job, workloads.check_job, workloads.check_job_update),
        kinds.LEASE: Rules(check=cluster_objects.check_lease),
        kinds.BUDGET: Rules(check=cluster_objects.check_budget),
        kinds.PRIORITY_CLASS: Rules(
            cluster_objects.defaulted_priority_class,
            cluster_objects.check_priority_class,
            cluster_objects.check_priority_class_update,
        ),
    }
)


def defaulted(kind: Kind, obj: _Map) -> _Map:
    """The object with what Kubernetes fills in; shares what stays."""
    return RULES[kind].defaulted(obj)


def causes_against(kind: Kind, obj: _Map) -> tuple[Cause, ...]:
    """What is wrong with an object whose defaults are filled in."""
    problems = Problems()
    check_metadata(kind, obj["metadata"], problems)
    RULES[kind].check(obj, problems)
    return tuple(problems.causes)


def causes_against_status(kind: Kind, obj: _Map) -> tuple[Cause, ...]:
    """What is wrong with what was found out about an object."""
    problems = Problems()
    check_status(kind, obj, problems)
    return tuple(problems.causes)


def causes_against_update(kind: Kind, old: _Map, new: _Map) -> tuple[Cause, ...]:
    """What is wrong with the new state, by itself and after the old one."""
    problems = Problems()
    check_metadata_update(old["metadata"], new["metadata"], problems)
    check_metadata(kind, new["metadata"], problems)
    RULES[kind].check(new, problems)
    if not problems.causes:
        RULES[kind].check_update(old, new, problems)
    return tuple(problems.causes)
