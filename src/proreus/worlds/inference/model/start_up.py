"""How long an instance takes to start, and how many there may be."""

from __future__ import annotations

from dataclasses import dataclass

from proreus.model.errors import UsageError
from proreus.worlds.inference.model.cluster import UNLIMITED, InstanceKind

_GIGABYTE = 1e9
_AT_ONCE = 1e12
"""GB a second that leave no time to speak of, in a number that JSON has."""


@dataclass(frozen=True)
class StartUp:
    """What a new instance waits for, one after the other."""

    provision_seconds: float = 40.0
    """Until there is a server."""
    storage_gigabytes: float = 2.0
    """GB a second that weights come with from where they are stored."""
    bus_gigabytes: float = 25.0
    """GB a second that each GPU takes in."""
    warm_up_seconds: float = 20.0
    """Until it may serve: graphs, caches, health checks."""

    def __post_init__(self) -> None:
        if min(self.provision_seconds, self.warm_up_seconds) < 0:
            raise UsageError("a start takes no less than 0 seconds")
        if min(self.storage_gigabytes, self.bus_gigabytes) <= 0:
            raise UsageError("weights come with more than 0 GB a second")

    def loading_seconds(self, kind: InstanceKind) -> float:
        """Weights come as fast as storage gives them and GPUs take them."""
        rate = min(self.storage_gigabytes, self.bus_gigabytes * kind.gpus)
        return kind.weights / (rate * _GIGABYTE)

    def seconds(self, kind: InstanceKind) -> float:
        """From the order to the first request."""
        return self.provision_seconds + self.loading_seconds(kind) + self.warm_up_seconds


def starting_within(seconds: float) -> StartUp:
    """A start that takes so long whatever the model."""
    return StartUp(seconds, _AT_ONCE, _AT_ONCE, 0.0)


@dataclass(frozen=True)
class Limits:
    """Between which numbers of instances a controller may choose."""

    least: int = 1
    """Of a pool that are active or starting: no action goes below it."""
    most: int = UNLIMITED
    """Of a pool that are active or starting."""
    most_in_total: int = 100
    """Whatever they do, draining ones included."""
    servers: tuple[tuple[str, int], ...] = ()
    """(kind of instance, servers that the provider has at all), where there are not as many as one likes."""

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.most:
            raise UsageError(f"a pool of {self.least} to {self.most} instances cannot be")
        if self.most_in_total < max(self.least, 1):
            raise UsageError(
                f"at most {self.most_in_total} instances in all: a pool needs {max(self.least, 1)} at least"
            )
