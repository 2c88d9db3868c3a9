"""Whether a node has room for a pod that was bound to it: the last check, against schedulers that raced."""

from __future__ import annotations

from proreus.engine.objects.resource_amounts import Amounts
from proreus.model.resources import DISK, GPU, NETWORK, PODS

_ITS_OWN = (GPU, DISK, NETWORK)


def shortage(asked: Amounts, taken: Amounts, allocatable: Amounts) -> tuple[str, str] | None:
    """The reason and the message, in the node's words, where the pod does not fit; None where it does.

    As a kubelet's: extended resources that the node knows nothing of are the cluster's, and not its matter.
    Devices and bandwidth are: who has none of them cannot hand them out.
    """
    for name in sorted(asked, key=lambda resource: (resource != PODS, resource)):
        if "/" in name and name not in allocatable and name not in _ITS_OWN:
            continue
        amount = asked[name]
        used, room = taken.get(name, 0), allocatable.get(name, 0)
        if amount and used + amount > room:
            numbers = f"requested: {amount}, used: {used}, capacity: {room}"
            return f"OutOf{name}", f"Node didn't have enough resource: {name}, {numbers}"
    return None
