"""Single containers of a pod stopped and started again, as annotations of the pod that its node obeys.

Kubernetes has no word for it: a stopped container stays away whatever the pod's restartPolicy says, and the
pod stays as it is, until the container is started again or the pod is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proreus.engine.objects.metadata import Object, with_metadata

STOPPED = "proreus.io/stopped-containers"
"""Names with commas between."""
RESTARTED = "proreus.io/restarted-containers"
"""NAME=ATTEMPT with commas between: up to this attempt the container is ended, and begun anew."""


def stopped(pod: Mapping[str, Any]) -> frozenset[str]:
    """The containers that are not to run."""
    return frozenset(name for name in _annotation(pod, STOPPED).split(",") if name)


def restarted(pod: Mapping[str, Any]) -> dict[str, int]:
    """The containers whose attempts up to this one are over, whatever the restartPolicy says."""
    pairs = (part.partition("=") for part in _annotation(pod, RESTARTED).split(",") if part)
    return {name: int(attempt) for name, _, attempt in pairs if attempt.isdecimal()}


def with_stop(pod: Object, container: str) -> Object:
    """The container does not run from now on."""
    return _written(pod, stopped(pod) | {container}, restarted(pod))


def with_start(pod: Object, container: str) -> Object:
    """A container that was stopped runs again; one that runs is let be."""
    if container not in stopped(pod):
        return pod
    return _written(pod, stopped(pod) - {container}, restarted(pod) | {container: attempts(pod, container)})


def with_restart(pod: Object, container: str) -> Object:
    """The attempt that the status tells of ends, and another one begins."""
    return _written(pod, stopped(pod) - {container}, restarted(pod) | {container: attempts(pod, container)})


def attempts(pod: Mapping[str, Any], container: str) -> int:
    """Which attempt the status tells of."""
    for told in (pod.get("status") or {}).get("containerStatuses") or ():
        if told.get("name") == container:
            return int(told.get("restartCount") or 0)
    return 0


def _written(pod: Object, away: frozenset[str], again: Mapping[str, int]) -> Object:
    annotations = dict(pod["metadata"].get("annotations") or {})
    marks = ",".join(f"{name}={attempt}" for name, attempt in sorted(again.items()))
    for annotation, text in ((STOPPED, ",".join(sorted(away))), (RESTARTED, marks)):
        if text:
            annotations[annotation] = text
        else:
            annotations.pop(annotation, None)
    return with_metadata(pod, annotations=annotations)


def _annotation(pod: Mapping[str, Any], name: str) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(name, ""))
