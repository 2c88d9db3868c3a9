"""The agent of one node, without I/O: what is seen goes in, what is to be done comes out.

It is the kubelet's part: it takes the pods that are bound to its node if they fit, has the runtime run them,
runs containers again as their policy says, tells their status, and lets deleted pods go when nothing of them
runs any more. It remembers nothing that it could not find again: a new agent of the same node adopts what the
runtime runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from proreus.engine.kubelet.admission import shortage
from proreus.engine.kubelet.events import ContainerEvents, killings, pod_event
from proreus.engine.kubelet.instructions import (
    FinishDeletion,
    ForgetPod,
    Order,
    StartContainer,
    StartPod,
    StopContainer,
    StopPod,
    WakeAt,
    WriteStatus,
)
from proreus.engine.kubelet.lost_containers import lost_containers
from proreus.engine.kubelet.pod_status import TERMINAL, NodeVerdict, StatusInputs, pod_phase, pod_status
from proreus.engine.kubelet.restarts import Due, Restarts, to_end
from proreus.engine.objects.metadata import Object, deleting, uid_of
from proreus.engine.objects.resource_amounts import Amounts, read_amounts, requests_of, total
from proreus.engine.objects.timestamps import parse_timestamp
from proreus.engine.runtimes.clock import Moment
from proreus.engine.runtimes.pod_reports import first_attempt
from proreus.engine.runtimes.protocol import Capacity, ContainerReport, Phase, PodReport

_NO_MORE_GRACE = 0.0
_UNSTATED_GRACE = 30.0
_EVICTION_GRACE = 1.0
"""Of a pod that has taken more than it may: a kubelet's."""


@dataclass(slots=True)
class _Held:
    """A pod that this node was given."""

    pod: Object
    started: float
    taken_up: float
    """When this agent was given it, by the wall clock."""
    asked: Amounts
    report: PodReport | None = None
    verdict: NodeVerdict | None = None
    ordered: bool = False
    """Whether the runtime was told to start it."""
    stop_by: float | None = None
    """The steady moment at which the grace that was last ordered ends; None: nothing was ordered to stop."""
    gone: bool = False
    """Whether its object has left the API: it only has to be stopped."""
    deadline: float | None = None
    restarts: Restarts = field(default_factory=Restarts)
    waits: dict[str, Due] = field(default_factory=dict)
    ends: dict[str, ContainerReport] = field(default_factory=dict)
    """Of each container the last attempt that has ended."""
    phase: str = "Pending"
    ended_by_order: dict[str, int] = field(default_factory=dict)
    """Of each container the last attempt that was ordered to end alone."""
    telling: ContainerEvents = field(default_factory=ContainerEvents)


class ResourceAgent:
    """See the module. Every method yields its orders: take them all before the next call."""

    def __init__(self, node: str, capacity: Capacity, address: str) -> None:
        self.node, self.capacity, self.address = node, capacity, address
        self._allocatable = self._own = read_amounts(capacity.allocatable)
        self._held: dict[str, _Held] = {}

    def offers(self, node: Object) -> None:
        """The Node as the API has it: extended resources that somebody gave it count here, too."""
        stated = read_amounts((node.get("status") or {}).get("allocatable"))
        self._allocatable = stated | self._own

    def begin(self, pods: Iterable[Object], reports: Sequence[PodReport], now: Moment) -> list[Order]:
        """What the API has on this node, and what the runtime runs: those are adopted, strangers end."""
        orders: list[Order] = []
        running = {report.uid: report for report in reports}
        for pod in sorted(pods, key=lambda pod: (uid_of(pod) not in running, uid_of(pod))):
            report = running.pop(uid_of(pod), None)
            if report is not None:
                held = self._hold(pod, now)
                held.ordered, held.report = True, report
            elif not deleting(pod) and (lost := lost_containers(pod, now.wall)):
                held = self._hold(pod, now)
                held.report = PodReport(uid_of(pod), lost)
                orders += self._told(held)
                continue
            orders += self.pod(pod, now)
        for report in running.values():
            orders += (StopPod(report.uid, _NO_MORE_GRACE), ForgetPod(report.uid))
        return orders

    def pod(self, pod: Object, now: Moment) -> list[Order]:
        """A pod of this node has come or changed."""
        held = self._held.get(uid_of(pod))
        if held is None:
            if (pod.get("status") or {}).get("phase") in TERMINAL:
                return [FinishDeletion(pod)] if deleting(pod) else []
            if deleting(pod):
                return [FinishDeletion(pod)]
            held = self._hold(pod, now)
            held.restarts = Restarts(_first_attempts(pod))
            short = shortage(held.asked, self._taken(but=held), self._allocatable)
            if short is not None:
                held.verdict = NodeVerdict(short[0], short[1])
                return [pod_event(pod, "Warning", *short), *self._told(held)]
        held.pod = pod
        return list(self._forward(held, now))

    def heard(self, pod: Object) -> None:
        """The API has the pod as this agent told it, and nothing else about it is new."""
        held = self._held.get(uid_of(pod))
        if held is not None:
            held.pod = pod

    def gone(self, uid: str, now: Moment) -> list[Order]:
        """Its object has left the API (deleted by force, or by us)."""
        held = self._held.get(uid)
        if held is None:
            return []
        held.gone = True
        if not held.ordered or not self._runs(held):
            del self._held[uid]
            return [ForgetPod(uid)] if held.ordered else []
        return list(self._stop(held, _NO_MORE_GRACE, now))

    def reported(self, report: PodReport, now: Moment) -> list[Order]:
        """The runtime tells how a pod is."""
        held = self._held.get(report.uid)
        if held is None:
            return [ForgetPod(report.uid)]
        held.report = report
        held.ends |= {
            container.name: container for container in report.containers if container.phase is Phase.EXITED
        }
        if held.gone:
            return self.gone(report.uid, now)
        return [*held.telling.news(held.pod, report), *self._forward(held, now)]

    def tick(self, now: Moment) -> list[Order]:
        """Some moment that was waited for has come; the next one of all pods is ordered anew.

        A node has one alarm, at the first moment: what other pods wait for was not kept beside it.
        """
        orders: list[Order] = []
        for held in list(self._held.values()):
            if any(moment <= now.steady for moment in _moments(held)):
                orders += self._forward(held, now)
        later = [moment for held in self._held.values() for moment in _moments(held) if moment > now.steady]
        return [*orders, WakeAt(min(later))] if later else orders

    def uids(self) -> list[str]:
        """The pods that this node holds."""
        return list(self._held)

    def taken(self) -> dict[str, int]:
        """What its pods ask for together."""
        return self._taken()

    def _hold(self, pod: Object, now: Moment) -> _Held:
        known = (pod.get("status") or {}).get("startTime")
        started = parse_timestamp(known) if known else now.wall
        held = self._held[uid_of(pod)] = _Held(pod, started, now.wall, requests_of(pod))
        limit = pod["spec"].get("activeDeadlineSeconds")
        if limit is not None:
            held.deadline = now.steady + float(limit) - max(0.0, now.wall - started)
        return held

    def _forward(self, held: _Held, now: Moment) -> Iterator[Order]:
        """Whatever brings this pod nearer to what it should be."""
        uid = uid_of(held.pod)
        if deleting(held.pod):
            yield from self._leave(held, now)
            return
        if held.verdict is None and held.deadline is not None:
            if now.steady >= held.deadline:
                message = "Pod was active on the node longer than the specified deadline"
                held.verdict = NodeVerdict("DeadlineExceeded", message)
                yield pod_event(held.pod, "Normal", "DeadlineExceeded", message)
            else:
                yield WakeAt(held.deadline)
        if held.verdict is None and held.phase not in TERMINAL and held.report is not None:
            if held.report.overfull:
                held.verdict = NodeVerdict("Evicted", held.report.overfull)
                yield pod_event(held.pod, "Warning", "Evicted", held.report.overfull)
        if held.verdict is not None:
            if self._runs(held):
                evicted = held.verdict.reason == "Evicted"
                yield from self._stop(held, _EVICTION_GRACE if evicted else _grace(held.pod), now)
        elif held.phase not in TERMINAL:
            yield from self._start(held, uid, now)
        yield from self._told(held)

    def _start(self, held: _Held, uid: str, now: Moment) -> Iterator[Order]:
        reports = (
            {container.name: container for container in held.report.containers}
            if held.report is not None
            else {}
        )
        if held.ordered and held.report is None:
            return  # the sandbox is being made
        for report in to_end(held.pod, reports):
            if held.ended_by_order.get(report.name) != report.attempt:
                held.ended_by_order[report.name] = report.attempt
                yield StopContainer(uid, report.name, _grace(held.pod))
        wanted = held.restarts.wanted(held.pod, reports, now.steady)
        held.waits = {due.container: due for due in wanted if due.at > now.steady}
        ready = [due for due in wanted if due.at <= now.steady]
        if not held.ordered:
            held.ordered = True
            yield StartPod(held.pod, tuple(due.container for due in ready))
            return
        for due in ready:
            yield StartContainer(uid, due.container, due.attempt)
        if held.waits:
            yield from held.telling.pauses(held.pod, held.waits.values())
            yield WakeAt(min(due.at for due in held.waits.values()))

    def _leave(self, held: _Held, now: Moment) -> Iterator[Order]:
        """The pod is being deleted: stop it, then let its object go."""
        if held.ordered and self._runs(held):
            stated = held.pod["metadata"].get("deletionGracePeriodSeconds")
            yield from self._stop(held, _UNSTATED_GRACE if stated is None else float(stated), now)
            return
        if held.report is not None and held.phase not in TERMINAL:
            held.waits = {}
            yield from self._told(held)
        yield FinishDeletion(held.pod)

    def _stop(self, held: _Held, grace: float, now: Moment) -> Iterator[Order]:
        """Ordered once, and again only where less grace is given than is left."""
        end = now.steady + grace
        if held.stop_by is None or end < held.stop_by - 1e-6:
            if held.stop_by is None and not held.gone:
                yield from killings(held.pod, held.report)
            held.stop_by = end
            yield StopPod(uid_of(held.pod), grace)

    def _told(self, held: _Held) -> Iterator[Order]:
        seen = StatusInputs(
            held.pod,
            held.report,
            held.waits,
            held.ends,
            held.verdict,
            held.started,
            self.address,
            held.taken_up,
        )
        held.phase = pod_phase(seen)
        yield WriteStatus(held.pod, pod_status(seen), lazy=held.phase == "Pending" and held.verdict is None)

    def _runs(self, held: _Held) -> bool:
        """Whether something of it may run: what was ordered and not reported yet counts."""
        if not held.ordered:
            return False
        if held.report is None:
            return True
        return any(_alive(container) for container in held.report.containers)

    def _taken(self, but: _Held | None = None) -> dict[str, int]:
        return total(
            held.asked
            for held in self._held.values()
            if held is not but and held.phase not in TERMINAL and (held.verdict is None or self._runs(held))
        )


def _moments(held: _Held) -> Iterator[float]:
    """What a pod waits for, by the steady clock."""
    yield from (due.at for due in held.waits.values())
    if held.deadline is not None and held.verdict is None and held.phase not in TERMINAL:
        yield held.deadline


def _first_attempts(pod: Object) -> dict[str, int]:
    """Of a pod that the runtime knows nothing of."""
    spec = pod["spec"]
    containers = (*(spec.get("initContainers") or ()), *spec["containers"])
    found = {container["name"]: first_attempt(pod, container["name"]) for container in containers}
    return {name: attempt for name, attempt in found.items() if attempt}


def _alive(report: ContainerReport) -> bool:
    return report.phase is not Phase.EXITED


def _grace(pod: Object) -> float:
    stated = pod["spec"].get("terminationGracePeriodSeconds")
    return _UNSTATED_GRACE if stated is None else float(stated)
