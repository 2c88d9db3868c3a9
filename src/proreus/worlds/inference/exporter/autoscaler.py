"""The horizontal pod autoscaler between a metric and a Deployment, as Kubernetes reckons it every 15 s.

Metrics in, replicas out: no clock and no cluster. What it does with an AverageValue target: nothing within
the tolerance, else ceil(metric / target); then the stabilisation windows; then the policies, which bound how
far one period goes; then the least and the most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SYNC_SECONDS = 15.0
"""Between two of its looks, and the period of the policies here."""


@dataclass(frozen=True)
class Behavior:
    """`behavior` of an autoscaler; as it is here, what Kubernetes has where nobody says anything."""

    tolerance: float = 0.1
    up_window: float = 0.0
    """Seconds (`stabilizationWindowSeconds`): as many as were wanted at all times within are started."""
    down_window: float = 300.0
    """The most that was wanted within is kept."""
    up_percent: float = 100.0
    up_pods: int = 4
    """A period; whichever of the two is more."""
    down_percent: float = 100.0


AT_ONCE = Behavior(tolerance=0.0, down_window=0.0, up_percent=1000.0)
"""As scaledobject.yaml has it: the policy behind the metric decides when and how far."""


def hpa_replicas(amount: float, target: float, current: int, tolerance: float) -> int:
    """ceil(metric / target), unless that is within the tolerance of what there is."""
    if current and abs(amount / (target * current) - 1.0) <= tolerance:
        return current
    return math.ceil(amount / target)


class HorizontalPodAutoscaler:
    """One autoscaler, which remembers what was recommended."""

    def __init__(self, behavior: Behavior, least: int, most: int) -> None:
        self._behavior, self._least, self._most = behavior, least, most
        self._recommended: list[tuple[float, int]] = []

    def replicas(self, now: float, amount: float, target: float, current: int) -> int:
        """That the Deployment is to have from now on."""
        behavior = self._behavior
        recommended = hpa_replicas(amount, target, current, behavior.tolerance)
        longest = max(behavior.up_window, behavior.down_window)
        self._recommended = [old for old in self._recommended if old[0] >= now - longest]
        self._recommended.append((now, recommended))
        at_least = min(count for at, count in self._recommended if at >= now - behavior.up_window)
        at_most = max(count for at, count in self._recommended if at >= now - behavior.down_window)
        wanted = min(max(current, at_least), at_most)
        highest = max(math.ceil(current * (1 + behavior.up_percent / 100.0)), current + behavior.up_pods)
        lowest = math.floor(current * (1 - behavior.down_percent / 100.0))
        return min(max(min(max(wanted, lowest), highest), self._least), self._most)
