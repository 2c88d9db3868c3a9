"""A namespace that is being deleted: everything in it goes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proreus.engine.agents.instructions import Instruction, Remove, Update
from proreus.engine.agents.metadata import Object, deleting
from proreus.engine.objects.kinds import NAMESPACE, Kind

_FINALIZER = "kubernetes"


def empty_out(namespace: Object, contents: Mapping[Kind, Sequence[Object]]) -> list[Instruction]:
    """The next step: whatever stands in it is deleted; when nothing does, it may go itself."""
    if not deleting(namespace):
        return []
    if any(contents.values()):
        return [Remove(kind, obj) for kind, many in contents.items() for obj in many if not deleting(obj)]
    finalizers = (namespace.get("spec") or {}).get("finalizers") or ()
    if _FINALIZER not in finalizers:
        return []
    left = [one for one in finalizers if one != _FINALIZER]
    return [Update(NAMESPACE, {**namespace, "spec": {**namespace["spec"], "finalizers": left}}, "finalize")]
