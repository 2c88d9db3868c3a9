"""What a status may say: words that others decide by, and counts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from proreus.engine.objects.kinds import BUDGET, DEPLOYMENT, JOB, NAMESPACE, POD, REPLICA_SET, Kind
from proreus.engine.objects.validation.error_list import Problems

_Map = dict[str, Any]
_CONDITION = ("False", "True", "Unknown")
_WORDS: Mapping[Kind, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        POD: {
            "phase": ("Failed", "Pending", "Running", "Succeeded", "Unknown"),
            "qosClass": ("BestEffort", "Burstable", "Guaranteed"),
        },
        NAMESPACE: {"phase": ("Active", "Terminating")},
    }
)
_COUNTS: Mapping[Kind, tuple[str, ...]] = MappingProxyType(
    {
        DEPLOYMENT: (
            "availableReplicas",
            "readyReplicas",
            "replicas",
            "unavailableReplicas",
            "updatedReplicas",
        ),
        REPLICA_SET: ("availableReplicas", "fullyLabeledReplicas", "readyReplicas", "replicas"),
        JOB: ("active", "failed", "ready", "succeeded", "terminating"),
        BUDGET: ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"),
    }
)


def check_status(kind: Kind, obj: _Map, problems: Problems) -> None:
    """Of any kind that has one."""
    status = obj.get("status") or {}
    for key, words in _WORDS.get(kind, {}).items():
        if status.get(key):
            problems.one_of(f"status.{key}", status[key], words)
    for key in _COUNTS.get(kind, ()):
        if key in status:
            problems.at_least(f"status.{key}", status[key])
    for place, condition in enumerate(status.get("conditions") or ()):
        if not condition.get("type"):
            problems.required(f"status.conditions[{place}].type")
        problems.one_of(f"status.conditions[{place}].status", condition.get("status", ""), _CONDITION)
