"""The refusals that several writers share, worded as the API server words them."""

from __future__ import annotations

from typing import Any

from proreus.engine.objects.errors import Cause, Conflict, Forbidden, Invalid, NotFound
from proreus.engine.objects.kinds import Kind


def not_found(kind: Kind, name: str) -> NotFound:
    """There is no object of that name."""
    return NotFound(f'{kind.resource} "{name}" not found', kind=kind.resource, name=name)


def conflict(kind: Kind, name: str, why: str) -> Conflict:
    """It cannot be done to the object as it stands."""
    return Conflict(
        f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}', kind=kind.resource, name=name
    )


def forbidden(kind: Kind, name: str, why: str, causes: tuple[Cause, ...] = ()) -> Forbidden:
    """A rule of the cluster is against it."""
    return Forbidden(
        f'{kind.resource} "{name}" is forbidden: {why}', kind=kind.resource, name=name, causes=causes
    )


_MOST_CAUSES = 256
"""So many are told of: whoever has mended these asks again."""


def told_of(causes: tuple[Cause, ...]) -> tuple[Cause, ...]:
    """As many causes as one answer names, and that there are more."""
    if len(causes) <= _MOST_CAUSES:
        return causes
    more = Cause("", f"and {len(causes) - _MOST_CAUSES} more", causes[-1].reason)
    return (*causes[:_MOST_CAUSES], more)


def invalid(kind: Kind, name: str, causes: tuple[Cause, ...]) -> Invalid:
    """The fields that are wrong, as the API server lists them."""
    causes = told_of(causes)
    messages = [f"{cause.field}: {cause.message}" for cause in causes]
    listed = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    shown = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    return Invalid(f'{shown} "{name}" is invalid: {listed}', kind=shown, name=name, causes=causes)


def check_preconditions(kind: Kind, obj: dict[str, Any], uid: str, resource_version: str) -> None:
    """The object is the one that is meant, in the state that is meant; "" asks for nothing."""
    metadata = obj["metadata"]
    if uid and uid != metadata["uid"]:
        raise conflict(
            kind,
            metadata["name"],
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata['uid']}",
        )
    if resource_version and resource_version != metadata["resourceVersion"]:
        raise conflict(
            kind,
            metadata["name"],
            "the object has been modified; please apply your changes to the latest version and try again",
        )
