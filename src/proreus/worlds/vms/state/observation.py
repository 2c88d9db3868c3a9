"""What a policy sees when a virtual machine needs a place."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from proreus.kernels.arrays import F32, F64, I32, Bool
from proreus.worlds.vms.model import Treatment
from proreus.worlds.vms.state.servers import UNITS, Flavours, Servers


@dataclass(frozen=True, eq=False)
class Past:
    """What whoever runs the cluster knows of the run so far. Machines are counted from the run's first."""

    run: int
    """Tells runs apart that follow each other."""
    machine: int
    """The one that needs a place."""
    flavour: I32
    """[M] of all that have come: placed, turned away, gone, in line behind this one."""
    arrival: F64
    """[M] seconds."""
    place: I32
    """[M] where each runs now, or NOWHERE."""


@dataclass(frozen=True, eq=False)
class VmObservation:
    """A request and the servers it may go to; the arrays are the world's own and change as it goes on."""

    servers: Servers
    flavours: Flavours
    lane: int
    flavour: int
    now: float
    """Seconds."""
    waited: float
    """Seconds since the request came."""
    treatment: Treatment = field(default_factory=Treatment)
    """What becomes of machines here."""
    past: Past | None = None
    """None: nothing is told of it."""

    @property
    def obs(self) -> F32:
        """[N, 2, 2] cores and GB that are free on each NUMA node."""
        return self.servers.shown[self.lane]

    @property
    def feat(self) -> F32:
        """[2, 2, 2] what each NUMA node would have to give if the first, or the second, were chosen."""
        return demand(self.flavours, self.flavour)

    @property
    def avail(self) -> Bool:
        """[2N] the legal actions: server * 2 + NUMA node."""
        places = 2 * self.servers.capacity.shape[0]
        return self.servers.fits[self.lane, self.flavour, :places].view(np.bool_)

    def action_mask(self) -> Bool:
        """The same under the name that every world has."""
        return self.avail


def demand(flavours: Flavours, flavour: int) -> F32:
    """[2, 2, 2] by chosen NUMA node, NUMA node and resource: cores and GB that a request takes."""
    need = (flavours.need[:, flavour] / UNITS).astype(np.float32)
    if flavours.double[flavour]:
        return np.broadcast_to(need, (2, 2, 2)).copy()
    table = np.zeros((2, 2, 2), dtype=np.float32)
    table[0, 0] = table[1, 1] = need
    return table
