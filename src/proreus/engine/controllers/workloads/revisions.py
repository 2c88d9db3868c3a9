"""The ReplicaSets of a Deployment as its revisions: which one is new, which are history, what they carry."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from proreus.engine.controllers.workloads.replica_sets import replicas_of
from proreus.engine.objects.kinds import DEPLOYMENT, REPLICA_SET
from proreus.engine.objects.metadata import (
    Object,
    annotations_of,
    created,
    name_of,
    namespace_of,
    owner_reference,
    uid_of,
    with_metadata,
)

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        HISTORY,
        DESIRED,
        MOST,
    }
)
_LONGEST_HISTORY = 2000
_SAFE = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_NAME = 253
_SILENT_ZEROS = frozenset(
    {
        "generation",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "hostPort",
        "initialDelaySeconds",
        "readOnly",
        "stdin",
        "stdinOnce",
        "tty",
    }
)
_EMPTY: tuple[Any, ...] = (None, {}, [], "")


@dataclass(frozen=True)
class Revisions:
    """All ReplicaSets that a Deployment owns."""

    new: Object | None
    """The one with the Deployment's template."""
    old: tuple[Object, ...]
    """The others, the oldest first."""

    @property
    def every(self) -> tuple[Object, ...]:
        """All of them, the new one last."""
        return self.old if self.new is None else (*self.old, self.new)

    @property
    def next_revision(self) -> int:
        """The number of the new one, if it must take one."""
        return max((revision_of(replica_set) for replica_set in self.old), default=0) + 1


def sort_out(deployment: Object, replica_sets: Sequence[Object]) -> Revisions:
    """Which one is new; the oldest, where several have the template."""
    by_age = sorted(replica_sets, key=lambda replica_set: (created(replica_set), name_of(replica_set)))
    template = _without_hash(deployment["spec"]["template"])
    new = next(
        (replica_set for replica_set in by_age if _without_hash(replica_set["spec"]["template"]) == template),
        None,
    )
    return Revisions(
        new, tuple(replica_set for replica_set in by_age if new is None or uid_of(replica_set) != uid_of(new))
    )


def new_replica_set(deployment: Object, replicas: int, most: int, revision: int) -> Object:
    """The ReplicaSet of the Deployment's present template; its name is a function of the template."""
    spec = deployment["spec"]
    template, mark = spec["template"], template_hash(deployment)
    stated = template.get("metadata") or {}
    labels = {**(stated.get("labels") or {}), HASH_LABEL: mark}
    selector = dict(spec["selector"])
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH_LABEL: mark}
    numbers = {REVISION: str(revision), DESIRED: str(replicas_of(deployment)), MOST: str(most)}
    made: dict[str, Any] = {
        "replicas": replicas,
        "selector": selector,
        "template": {**template, "metadata": {**stated, "labels": labels}},
    }
    if spec.get("minReadySeconds"):
        made["minReadySeconds"] = spec["minReadySeconds"]
    return {
        "apiVersion": REPLICA_SET.api_version,
        "kind": REPLICA_SET.kind,
        "metadata": {
            "name": f"{name_of(deployment)[: _LONGEST_NAME - len(mark) - 1]}-{mark}",
            "namespace": namespace_of(deployment),
            "labels": labels,
            "annotations": {**_copied(deployment), **numbers},
            "ownerReferences": [owner_reference(DEPLOYMENT, deployment)],
        },
        "spec": made,
    }


def template_hash(deployment: Object) -> str:
    """Ten characters that belong to the template; another ten after a collision."""
    collisions = (deployment.get("status") or {}).get("collisionCount") or 0
    written = msgspec.json.encode([_without_hash(deployment["spec"]["template"]), collisions], order="sorted")
    number = int.from_bytes(hashlib.blake2b(written, digest_size=8).digest())
    letters = []
    for _ in range(10):
        number, place = divmod(number, len(_SAFE))
        letters.append(_SAFE[place])
    return "".join(letters)


def renewed(deployment: Object, new: Object, revision: int) -> Object | None:
    """The new ReplicaSet with the annotations that it must carry by now; None where it does.

    Where it stood before (a roll back) its former numbers are kept as history.
    """
    standing = annotations_of(new)
    wanted = {**standing, **_copied(deployment)}
    before = revision_of(new)
    if before < revision:
        wanted[REVISION] = str(revision)
        if before:
            history = [*filter(None, standing.get(HISTORY, "").split(",")), str(before)]
            while len(",".join(history)) > _LONGEST_HISTORY:
                history.pop(0)
            wanted[HISTORY] = ",".join(history)
    seconds = deployment["spec"].get("minReadySeconds") or 0
    same_wait = (new["spec"].get("minReadySeconds") or 0) == seconds
    if wanted == standing and same_wait:
        return None
    spec = new["spec"] if same_wait else {**new["spec"], "minReadySeconds": seconds}
    return {**with_metadata(new, annotations=wanted), "spec": spec}


def revision_of(obj: Mapping[str, Any]) -> int:
    """Its number; 0: none yet."""
    return annotated(obj, REVISION) or 0


def annotated(obj: Mapping[str, Any], name: str) -> int | None:
    """A number that the Deployment wrote onto its ReplicaSet."""
    stated = annotations_of(obj).get(name)
    return None if stated is None or not stated.isdecimal() else int(stated)


def _copied(deployment: Object) -> dict[str, str]:
    return {key: value for key, value in annotations_of(deployment).items() if key not in _NOT_COPIED}


def _without_hash(template: Mapping[str, Any]) -> Any:
    """The template as far as it says anything: what is told apart by it is another revision."""
    stated = template.get("metadata") or {}
    labels = {key: value for key, value in (stated.get("labels") or {}).items() if key != HASH_LABEL}
    return _meant({**template, "metadata": {**stated, "labels": labels}})


def _meant(value: Any) -> Any:
    """Without what is empty, and without zeros that mean the same as silence: clients write them or not."""
    match value:
        case dict():
            kept = (
                (key, _meant(inner))
                for key, inner in value.items()
                if not (key in _SILENT_ZEROS and not inner)
            )
            return {key: inner for key, inner in kept if inner not in _EMPTY}
        case list():
            return [_meant(element) for element in value]
        case _:
            return value
