"""What of an object has no effect here: told to whoever writes it by warnings, as Kubernetes does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from proreus.engine.api.k8s.field_validation import warning
from proreus.engine.api.server.reply import Header
from proreus.engine.objects.kinds import DEPLOYMENT, JOB, POD, REPLICA_SET, SERVICE, Kind

_MOST = 16
_SERVICE = (
    "a Service is kept and has no effect here: nothing is routed, and no address or name is made; pods have "
    "the network of their machine"
)
_ACCOUNT = "there are no ServiceAccounts here: none is looked for, and no token is mounted"
_WITHOUT_EFFECT = {
    "runtimeClassName": "there are no RuntimeClasses here: the node's own runtime runs the pod",
    "resourceClaims": "there are no ResourceClaims here: nothing is allocated",
}
_TEMPLATED = (DEPLOYMENT, REPLICA_SET, JOB)
_USUAL_ACCOUNT = "default"


def effect_warnings(kind: Kind, obj: Mapping[str, Any], *, simulated: bool) -> tuple[Header, ...]:
    """Of an object as it was stored; simulated: whether the nodes here are."""
    texts = []
    if kind is SERVICE:
        texts.append(_SERVICE)
    elif kind is POD:
        texts += _of_pod("spec", obj["spec"], simulated=simulated)
    elif kind in _TEMPLATED:
        spec = obj["spec"].get("template", {}).get("spec") or {}
        texts += _of_pod("spec.template.spec", spec, simulated=simulated)
    return tuple(warning(text) for text in texts[:_MOST])


def touches_spec(patch: Any) -> bool:
    """Whether a patch is about what an object is to be: labels alone bring no warning back."""
    if isinstance(patch, Mapping):
        return "spec" in patch
    return any(
        isinstance(operation, Mapping) and str(operation.get("path", "")).startswith("/spec")
        for operation in patch
    )


def _of_pod(path: str, spec: Mapping[str, Any], *, simulated: bool) -> Iterator[str]:
    named = spec.get("serviceAccountName") or spec.get("serviceAccount") or _USUAL_ACCOUNT
    if named != _USUAL_ACCOUNT:
        yield f'{path}.serviceAccountName: "{named}" has no effect: {_ACCOUNT}'
    for field, why in _WITHOUT_EFFECT.items():
        if spec.get(field):
            yield f"{path}.{field} has no effect: {why}"
    if not simulated:
        return  # there, a volume that the node cannot have keeps the pod from starting, and an event says so
    for place, volume in enumerate(spec.get("volumes") or ()):
        if volume.get("persistentVolumeClaim"):
            yield (
                f"{path}.volumes[{place}].persistentVolumeClaim has no effect: simulated nodes mount "
                "nothing, and no claim is looked for"
            )
