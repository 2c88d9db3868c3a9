"""Which containers of a pod are to be started now, and which only later: the order of init containers, the
restart policy, and the pause that grows with each crash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from proreus.engine.objects.container_commands import restarted, stopped
from proreus.engine.runtimes.pod_reports import restarts as restarts
from proreus.engine.runtimes.protocol import ContainerReport, Phase

FIRST_PAUSE, LONGEST_PAUSE = 10.0, 300.0
CALM = 2 * LONGEST_PAUSE
"""Who ran so long since the last crash begins anew with the first pause."""


@dataclass(frozen=True, slots=True)
class Due:
    """A container that is to be started at a moment of the steady clock; `pause` is what it waits for."""

    container: str
    attempt: int
    at: float
    pause: float = 0.0


@dataclass(slots=True)
class _Crashes:
    attempt: int
    """The attempt whose end was counted last."""
    pause: float
    last: float
    due: Due


@dataclass(slots=True)
class Restarts:
    """What is remembered of a pod's crashes; one for each pod, changed by `wanted`."""

    first: Mapping[str, int] = field(default_factory=dict)
    """With which attempt containers begin that were run before, and nothing is left of that."""
    crashes: dict[str, _Crashes] = field(default_factory=dict)

    def wanted(
        self, pod: Mapping[str, Any], reports: Mapping[str, ContainerReport], steady: float
    ) -> list[Due]:
        """The containers that are to start, those whose time has come and those that wait."""
        spec = pod["spec"]
        policy = spec.get("restartPolicy") or "Always"
        found: list[Due] = []
        for container in spec.get("initContainers") or ():
            name, sidecar = container["name"], container.get("restartPolicy") == "Always"
            report = reports.get(name)
            if report is None:
                found.append(Due(name, self.first.get(name, 0), steady))
                return found
            if sidecar:
                if report.phase is Phase.EXITED:
                    found.append(self._again(report, steady))
                elif report.phase is Phase.WAITING:
                    return found
                continue
            if report.phase is Phase.EXITED and report.exit_code == 0:
                continue
            if report.phase is Phase.EXITED and policy != "Never":
                found.append(self._again(report, steady))
            return found
        found.extend(self._of_containers(pod, policy, reports, steady))
        return found

    def _of_containers(
        self, pod: Mapping[str, Any], policy: str, reports: Mapping[str, ContainerReport], steady: float
    ) -> Iterator[Due]:
        away, anew = stopped(pod), restarted(pod)
        for container in pod["spec"]["containers"]:
            report = reports.get(container["name"])
            if container["name"] in away:
                continue
            if report is not None and report.phase is Phase.EXITED and _ordered(report, anew):
                yield Due(report.name, report.attempt + 1, steady)
            elif report is None:
                yield Due(container["name"], self.first.get(container["name"], 0), steady)
            elif report.phase is Phase.EXITED and restarts(policy, report.exit_code):
                yield self._again(report, steady)

    def _again(self, report: ContainerReport, steady: float) -> Due:
        """The next attempt after one that ended; asked twice of one end, it answers the same."""
        known = self.crashes.get(report.name)
        if known is not None and known.attempt == report.attempt:
            return known.due
        if known is None or steady - known.last > CALM:
            # An agent that has only just begun takes the attempts before as crashes in a row.
            attempts = report.attempt - self.first.get(report.name, 0)
            pause = 0.0 if attempts <= 0 or known is not None else _pause(attempts)
        else:
            pause = min(max(known.pause * 2, FIRST_PAUSE), LONGEST_PAUSE)
        due = Due(report.name, report.attempt + 1, steady + pause, pause)
        self.crashes[report.name] = _Crashes(report.attempt, pause, steady, due)
        return due


def _ordered(report: ContainerReport, anew: Mapping[str, int]) -> bool:
    """Whether somebody has ordered another attempt after this one."""
    return report.attempt <= anew.get(report.name, -1)


def held_open(pod: Mapping[str, Any], reports: Mapping[str, ContainerReport]) -> bool:
    """Whether containers stay away, or begin anew, by order: the pod does not end with them."""
    away, anew = stopped(pod), restarted(pod)
    return any(report.name in away or _ordered(report, anew) for report in reports.values())


def to_end(pod: Mapping[str, Any], reports: Mapping[str, ContainerReport]) -> Iterator[ContainerReport]:
    """Containers that run, and by order are not to."""
    away, anew = stopped(pod), restarted(pod)
    for report in reports.values():
        if report.phase is Phase.RUNNING and (report.name in away or _ordered(report, anew)):
            yield report


def _pause(attempts: int) -> float:
    return min(FIRST_PAUSE * 2.0 ** min(attempts - 1, 10), LONGEST_PAUSE)
