"""Which pod is meant by a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proreus.cli.cluster.names import kind_of, path_of
from proreus.engine.objects.kinds import POD
from proreus.model.errors import WorkError

if TYPE_CHECKING:
    from proreus.cli.cluster.client import Client


def pod_of(client: Client, word: str, namespace: str) -> str:
    """The name itself, `pod/NAME`, or the first pod of what KIND/NAME selects."""
    kind_word, slash, name = word.partition("/")
    if not slash:
        return word
    kind = kind_of(kind_word)
    if kind == POD:
        return name
    owner = client.get(path_of(kind, namespace, name))
    labels = ((owner.get("spec") or {}).get("selector") or {}).get("matchLabels")
    if not labels:
        raise WorkError(f"{word} selects no pods by labels")
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    pods: list[dict[str, Any]] = client.get(path_of(POD, namespace), {"labelSelector": selector})["items"]
    if not pods:
        raise WorkError(f"{word} has no pods")
    first: str = min(pods, key=_order)["metadata"]["name"]
    return first


def _order(pod: dict[str, Any]) -> tuple[bool, str]:
    """Running ones first, then by name."""
    return (pod.get("status") or {}).get("phase") != "Running", pod["metadata"]["name"]
