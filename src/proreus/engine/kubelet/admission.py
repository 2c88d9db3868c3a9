"""Whether a node has room for a pod that was bound to it: the last check, against schedulers that raced."""

from __future__ import annotations

from proreus.engine.objects.resource_amounts import Amounts
from proreus.model.resources import PODS


def shortage(asked: Amounts, taken: Amounts, allocatable: Amounts) -> tuple[str, str] | None:
    """The reason and the message, in the node's words, where the pod does not fit; None where it does."""
    for name in sorted(asked, key=lambda one: (one != PODS, one)):
        amount = asked[name]
        used, room = taken.get(name, 0), allocatable.get(name, 0)
        if amount and used + amount > room:
            numbers = f"requested: {amount}, used: {used}, capacity: {room}"
            return f"OutOf{name}", f"Node didn't have enough resource: {name}, {numbers}"
    return None
