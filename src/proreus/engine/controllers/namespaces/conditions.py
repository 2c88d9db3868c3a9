"""What is left of a namespace that is being deleted, in the conditions that Kubernetes tells it by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from proreus.engine.objects.conditions import Condition
from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.metadata import Object

_NO_TROUBLE = (
    Condition(
        "NamespaceDeletionDiscoveryFailure",
        "False",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    Condition(
        "NamespaceDeletionGroupVersionParsingFailure",
        "False",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    Condition(
        "NamespaceDeletionContentFailure",
        "False",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
)


def remaining_content(contents: Mapping[Kind, Sequence[Object]]) -> list[Condition]:
    """Five conditions: three that nothing went wrong, what is left by kind, and finalizers that keep it."""
    kinds = sorted((kind.plural, kind.group, len(many)) for kind, many in contents.items() if many)
    left = [f"{plural}.{group} has {count} resource instances" for plural, group, count in kinds]
    finalizers = Counter(
        finalizer
        for many in contents.values()
        for obj in many
        for finalizer in obj["metadata"].get("finalizers") or ()
    )
    held = [f"{name} in {count} resource instances" for name, count in sorted(finalizers.items())]
    return [*_NO_TROUBLE, _content(left), _finalizers(held)]


def _content(left: Sequence[str]) -> Condition:
    kind = "NamespaceContentRemaining"
    if not left:
        return Condition(kind, "False", "ContentRemoved", "All content successfully removed")
    return Condition(kind, "True", "SomeResourcesRemain", f"Some resources are remaining: {', '.join(left)}")


def _finalizers(held: Sequence[str]) -> Condition:
    kind = "NamespaceFinalizersRemaining"
    if not held:
        return Condition(
            kind, "False", "ContentHasNoFinalizers", "All content-preserving finalizers finished"
        )
    message = f"Some content in the namespace has finalizers remaining: {', '.join(held)}"
    return Condition(kind, "True", "SomeFinalizersRemain", message)
