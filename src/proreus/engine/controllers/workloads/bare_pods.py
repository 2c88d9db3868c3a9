"""A pod that nobody owns: nobody makes another, unless it asks to be moved when its node is lost.

With the annotation `proreus.io/reschedule: "true"` a pod that was taken from a lost node begins anew, under
its own name, once its object is gone: so it never runs twice at once. It is lost where the engine ends
between the two.
"""

from __future__ import annotations

from proreus.engine.controllers.instructions import CreateObject, ReconcileResult
from proreus.engine.controllers.nodes.taint_eviction import BY_TAINT
from proreus.engine.controllers.workloads.pods import phase_of
from proreus.engine.objects.conditions import find_condition
from proreus.engine.objects.decision_annotation import DECISION
from proreus.engine.objects.kinds import POD
from proreus.engine.objects.metadata import Object, annotations_of, controller_of

RESCHEDULE = "proreus.io/reschedule"
_OF_ONE_LIFE = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
)


def begin_anew(pod: Object) -> ReconcileResult:
    """What to do about a pod whose object has gone."""
    lost = find_condition(pod, "DisruptionTarget")
    taken = lost is not None and lost["status"] == "True" and lost.get("reason") == BY_TAINT.reason
    wants = annotations_of(pod).get(RESCHEDULE) == "true" and controller_of(pod) is None
    if not taken or not wants or phase_of(pod) == "Succeeded":
        return ReconcileResult()
    metadata = {key: value for key, value in pod["metadata"].items() if key not in _OF_ONE_LIFE}
    metadata["annotations"] = {k: v for k, v in annotations_of(pod).items() if k != DECISION}
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    made = {"apiVersion": POD.api_version, "kind": POD.kind, "metadata": metadata, "spec": spec}
    return ReconcileResult((CreateObject(POD, made),))
