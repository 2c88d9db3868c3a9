"""What a failed pod means to its Job: counted, overlooked, or the end of its index or of the whole Job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from proreus.engine.controllers.workloads.pods import phase_of
from proreus.engine.objects.metadata import Object, deleting, name_of, namespace_of

IGNORE, FAIL_INDEX, FAIL_JOB = "Ignore", "FailIndex", "FailJob"


@dataclass(frozen=True, slots=True)
class Matched:
    """The rule of a podFailurePolicy that a pod meets first."""

    action: str
    """Ignore, Count, FailIndex or FailJob."""
    told: str


def failed(job: Object, pod: Object) -> bool:
    """Whether it has failed: one on its way out has, unless only what has ended is replaced."""
    if phase_of(pod) == "Failed" or (given_up(pod) and phase_of(pod) != "Succeeded"):
        return True
    return not replaces_only_ended(job) and deleting(pod) and phase_of(pod) != "Succeeded"


def given_up(pod: Object) -> bool:
    """Deleted without grace: it had no node, or its node is gone, and nobody will say how it ended."""
    return deleting(pod) and not pod["metadata"].get("deletionGracePeriodSeconds")


def replaces_only_ended(job: Object) -> bool:
    """Whether a pod that is on its way out must have ended before another takes its place."""
    spec = job["spec"]
    return bool(spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy"))


def counts(job: Object, pod: Object) -> bool:
    """Whether it is a failure that the Job's limits count."""
    if not failed(job, pod):
        return False
    met = matched(job, pod)
    return met is None or met.action != IGNORE


def matched(job: Object, pod: Object) -> Matched | None:
    """Which rule a failed pod meets; None: none, and it is counted."""
    for place, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or ()):
        why = _why(rule, pod)
        if why is not None:
            return Matched(rule["action"], f"{why} matching {rule['action']} rule at index {place}")
    return None


def _why(rule: Mapping[str, Any], pod: Object) -> str | None:
    """In what way the pod meets the rule."""
    shown = f"{namespace_of(pod)}/{name_of(pod)}"
    codes = rule.get("onExitCodes")
    if codes is not None:
        for name, code in _exit_codes(pod):
            if codes.get("containerName") in (None, name) and _meets(codes, code):
                return f"Container {name} for pod {shown} failed with exit code {code}"
        return None
    patterns = {
        (pattern["type"], pattern.get("status") or "True") for pattern in rule.get("onPodConditions") or ()
    }
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if (condition.get("type"), condition.get("status")) in patterns:
            return f"Pod {shown} has condition {condition['type']}"
    return None


def _exit_codes(pod: Object) -> Iterator[tuple[str, int]]:
    """Containers that ended badly; what ended well is no reason."""
    status = pod.get("status") or {}
    for field in ("containerStatuses", "initContainerStatuses"):
        for container in status.get(field) or ():
            ended = (container.get("state") or {}).get("terminated")
            if ended is not None and int(ended["exitCode"]) != 0:
                yield str(container["name"]), int(ended["exitCode"])


def _meets(codes: Mapping[str, Any], code: int) -> bool:
    among = code in (codes.get("values") or ())
    return among if codes.get("operator") == "In" else not among
