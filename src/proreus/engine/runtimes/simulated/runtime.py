"""The simulated runtime: `PodRuntime` without a single process, by timers and draws alone."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from proreus.engine.objects.timestamps import parse_timestamp
from proreus.engine.runtimes import container_events
from proreus.engine.runtimes.clock import Cancellable, Timers
from proreus.engine.runtimes.output_session import PrintedSession
from proreus.engine.runtimes.pod_reports import container_of, first_attempt, last_report
from proreus.engine.runtimes.protocol import (
    AttachWanted,
    Capacity,
    CommandResult,
    CommandWanted,
    ContainerReport,
    ContainerSession,
    Image,
    LogWanted,
    NetworkUse,
    NodeUse,
    OutputStream,
    Phase,
    Pod,
    PodReport,
    PodUse,
    RuntimeRefused,
    Use,
)
from proreus.engine.runtimes.simulated.draws import (
    USUAL,
    BadAnnotation,
    Habits,
    SimulatedPlan,
    draw_plan,
    draw_start,
    draw_stop,
)
from proreus.engine.runtimes.simulated.log_lines import Author
from proreus.engine.runtimes.simulated.missing_images import (
    BACK_OFF_SECONDS,
    backing_off,
    is_missing,
    not_pulled,
)
from proreus.engine.wire.duplex import Connection

TERMINATED, KILLED = 143, 137
"""Exit codes of containers that ended by SIGTERM and by SIGKILL."""
_ADDRESSES = 254
_NOT_RUN = 126
"""Exit code of a command that was found and could not be run."""
_LOG_POLL = 0.5
"""Seconds between looks at a container whose next line cannot be foretold."""


@dataclass
class _Running:
    """A pod in this runtime."""

    pod: Pod
    address: str = ""
    failure: str = ""
    reports: dict[str, ContainerReport] = field(default_factory=dict)
    earlier: dict[str, ContainerReport] = field(default_factory=dict)
    """The attempt before the last, for `logs --previous`."""
    plans: dict[str, SimulatedPlan] = field(default_factory=dict)
    alarms: dict[str, Cancellable] = field(default_factory=dict)
    stopping: bool = False

    def has_ended(self) -> bool:
        """Whether all that was begun of it is over."""
        return bool(self.reports) and all(report.phase is Phase.EXITED for report in self.reports.values())


class SimulatedRuntime:
    """Runs the pods of one pretended node."""

    def __init__(self, capacity: Capacity, timers: Timers, habits: Habits = USUAL, subnet: str = "10.244.0"):
        self._capacity, self._timers, self._habits, self._subnet = capacity, timers, habits, subnet
        self._pods: dict[str, _Running] = {}
        self._hear: Callable[[PodReport], None] = lambda report: None
        self._addresses = 1
        self._images: dict[str, Image] = {}

    def subscribe(self, hear: Callable[[PodReport], None]) -> None:
        """Reports go there."""
        self._hear = hear

    def adopt(self, pods: Sequence[Pod]) -> Sequence[PodReport]:
        """What runs here; a runtime that is new takes up what the status of these pods says was running.

        A pretended machine goes on while its process is away: the draws are the same, so what should have
        ended meanwhile ends now.
        """
        for pod in pods:
            if pod["metadata"]["uid"] not in self._pods:
                self._recall(pod)
        return [self._report(uid) for uid in sorted(self._pods)]

    def start(self, pod: Pod, containers: Sequence[str]) -> None:
        """After the drawn latency the sandbox stands and these containers run."""
        uid = str(pod["metadata"]["uid"])
        if uid in self._pods:
            return
        running = self._pods[uid] = _Running(pod)
        try:
            latency = draw_start(self._habits, pod)
        except BadAnnotation as error:
            running.failure = str(error)
            latency = 0.0
        for name in containers:
            attempt = first_attempt(pod, name)
            running.reports[name] = ContainerReport(name, Phase.WAITING, attempt, reason="ContainerCreating")
        self._alarm(running, "", latency, self._stand, uid, tuple(containers))

    def start_container(self, uid: str, container: str, attempt: int) -> None:
        """One container, at once: the sandbox stands and the image is there."""
        running = self._pods.get(uid)
        if running is None or running.stopping:
            return
        last = running.reports.get(container)
        if last is not None and last.attempt >= attempt and last.phase is not Phase.WAITING:
            return
        if last is not None and last.phase is Phase.EXITED:
            running.earlier[container] = last
        running.reports[container] = ContainerReport(container, Phase.WAITING, attempt)
        self._alarm(running, container, 0.0, self._begin, uid, (container,))

    def stop(self, uid: str, grace: float) -> None:
        """After the drawn latency, or the grace if that is shorter, nothing runs any more."""
        running = self._pods.get(uid)
        if running is None:
            return
        asked = draw_stop(self._habits, running.pod)
        code = TERMINATED if asked < grace else KILLED
        running.stopping = True
        self._alarm(running, "", min(asked, grace), self._end_all, uid, code)

    def stop_container(self, uid: str, container: str, grace: float) -> None:
        """The same for one container."""
        running = self._pods.get(uid)
        if running is None or container not in running.reports:
            return
        asked = draw_stop(self._habits, running.pod)
        code = TERMINATED if asked < grace else KILLED
        self._alarm(running, container, min(asked, grace), self._end_one, uid, container, code)

    def remove(self, uid: str) -> None:
        """The pod is forgotten."""
        running = self._pods.pop(uid, None)
        if running is not None:
            for alarm in running.alarms.values():
                alarm.cancel()

    def capacity(self) -> Capacity:
        """As it was given."""
        return self._capacity

    def trouble(self) -> str:
        """None ever."""
        return ""

    def images(self) -> Sequence[Image]:
        """Those of the pods that have run here."""
        return [self._images[name] for name in sorted(self._images)]

    def stats(self) -> Sequence[Use]:
        """The drawn use of what runs."""
        return [
            Use(uid, name, plan.cpu, plan.memory, plan.disk)
            for uid, running in sorted(self._pods.items())
            for name, plan in _running_plans(running)
        ]

    def pod_stats(self) -> Sequence[PodUse]:
        """The drawn traffic of what runs: each pod has an address of its own."""
        pod_uses = []
        for uid, running in sorted(self._pods.items()):
            plans = [plan for _, plan in _running_plans(running)]
            if plans:
                traffic = NetworkUse(sum(plan.received for plan in plans), sum(plan.sent for plan in plans))
                pod_uses.append(PodUse(uid, 0, traffic))
        return pod_uses

    def node_stats(self) -> NodeUse:
        """What its containers use: there is nothing else on a pretended machine."""
        plans = [plan for running in self._pods.values() for _, plan in _running_plans(running)]
        return NodeUse(
            cpu=sum(plan.cpu for plan in plans),
            memory=sum(plan.memory for plan in plans),
            disk=sum(plan.disk for plan in plans),
            traffic=NetworkUse(sum(plan.received for plan in plans), sum(plan.sent for plan in plans)),
        )

    async def logs(self, uid: str, wanted: LogWanted) -> AsyncIterator[bytes]:
        """Plausible lines; with `follow` until the container ends."""
        author = self._author(uid, wanted.container, previous=wanted.previous)
        now = self._timers.wall()
        line = author.first_since(wanted.since) if wanted.since is not None else 0
        if wanted.tail is not None:
            line = max(line, author.count(now) - wanted.tail)
        left = math.inf if wanted.limit_bytes is None else wanted.limit_bytes
        while True:
            for text in author.written(now, after=line, timestamps=wanted.timestamps):
                yield text[: int(min(left, len(text)))]
                left -= len(text)
                line += 1
                if left <= 0:
                    return
            if not wanted.follow or now >= author.ends:
                return
            await asyncio.sleep(min(_LOG_POLL, max(0.0, author.moment(line) - now)))
            try:
                author = self._author(uid, wanted.container, attempt=author.attempt)
            except RuntimeRefused:  # it was removed or started again: this attempt writes no more
                return
            now = self._timers.wall()

    async def execute(
        self, uid: str, container: str, command: Sequence[str], stdin: bytes = b"", timeout: float = 60.0
    ) -> CommandResult:
        """Nothing can run here, and that is what it answers."""
        self._check_running(uid, container)
        return CommandResult(_NOT_RUN, stderr=_not_run(command))

    async def begin(self, uid: str, wanted: CommandWanted) -> ContainerSession:
        """The same answer."""
        self._check_running(uid, wanted.container)

        async def told() -> AsyncGenerator[tuple[OutputStream, bytes], None]:
            yield OutputStream.STDOUT if wanted.tty else OutputStream.STDERR, _not_run(wanted.command)

        return PrintedSession(told(), _NOT_RUN)

    async def attach(self, uid: str, wanted: AttachWanted) -> ContainerSession:
        """Its lines from now on."""
        self._check_running(uid, wanted.container)
        lines = self.logs(uid, LogWanted(wanted.container, follow=True, tail=0))

        async def printed() -> AsyncGenerator[tuple[OutputStream, bytes], None]:
            async for line in lines:
                yield OutputStream.STDOUT, line

        return PrintedSession(printed())

    async def connect(self, uid: str, port: int) -> Connection:
        """Nothing listens here."""
        raise RuntimeRefused(f"this pod is simulated: nothing listens on its port {port}")

    def _alarm(
        self, running: _Running, name: str, delay: float, act: Callable[..., None], *given: Any
    ) -> None:
        """One alarm for each container, and one ("") for the pod; a new one replaces the old."""
        old = running.alarms.pop(name, None)
        if old is not None:
            old.cancel()
        if math.isfinite(delay):
            running.alarms[name] = self._timers.call_at(self._timers.steady() + delay, act, *given)

    def _stand(self, uid: str, containers: tuple[str, ...]) -> None:
        running = self._pods[uid]
        if not running.failure:
            running.address = self._address()
        self._begin(uid, containers)

    def _begin(self, uid: str, containers: tuple[str, ...]) -> None:
        """These containers run from now."""
        running = self._pods[uid]
        now = self._timers.wall()
        for name in containers:
            waiting = running.reports[name]
            spec = container_of(running.pod, name)
            image = str(spec.get("image") or "")
            if is_missing(image):
                running.reports[name] = not_pulled(waiting, image)
                self._alarm(running, name, BACK_OFF_SECONDS, self._back_off, uid, name)
                continue
            try:
                if running.failure:
                    raise BadAnnotation(running.failure)
                plan = draw_plan(self._habits, running.pod, spec, waiting.attempt)
            except (BadAnnotation, ValueError) as error:
                refused = structs.replace(waiting, reason="CreateContainerConfigError", message=str(error))
                running.reports[name] = refused.with_notice(container_events.failed(str(error)))
                continue
            self._keep_image(spec)
            started = structs.replace(
                waiting,
                phase=Phase.RUNNING,
                id=f"simulated://{uid}/{name}/{waiting.attempt}",
                started=now,
                reason="",
                image=image,
                notices=(container_events.started(name),),
            )
            self._run(uid, started, plan, elapsed=0.0)
        self._tell(uid)

    def _back_off(self, uid: str, name: str) -> None:
        """An image that there is none of stays away."""
        running = self._pods[uid]
        image = str(container_of(running.pod, name).get("image") or "")
        running.reports[name] = backing_off(running.reports[name], image)
        self._tell(uid)

    def _run(self, uid: str, started: ContainerReport, plan: SimulatedPlan, elapsed: float) -> None:
        """It has run for `elapsed` seconds; the next of what becomes of it is ready or the end."""
        running = self._pods[uid]
        name = started.name
        running.plans[name] = plan
        ready = elapsed >= plan.ready_after
        running.reports[name] = structs.replace(started, ready=ready)
        if ready or plan.duration <= plan.ready_after:
            self._alarm(running, name, max(0.0, plan.duration - elapsed), self._end, uid, name)
        else:
            self._alarm(running, name, plan.ready_after - elapsed, self._serve, uid, name)

    def _serve(self, uid: str, name: str) -> None:
        running = self._pods[uid]
        plan = running.plans[name]
        self._run(uid, running.reports[name], plan, elapsed=plan.ready_after)
        self._tell(uid)

    def _end(self, uid: str, name: str) -> None:
        """It ends by itself."""
        self._exit(self._pods[uid], name, self._pods[uid].plans[name].exit_code)
        self._tell(uid)

    def _end_one(self, uid: str, name: str, code: int) -> None:
        """It was stopped alone."""
        self._exit(self._pods[uid], name, code)
        self._tell(uid)

    def _end_all(self, uid: str, code: int) -> None:
        """It was stopped."""
        running = self._pods[uid]
        for name in running.reports:
            self._exit(running, name, code)
        self._tell(uid)

    def _exit(self, running: _Running, name: str, code: int) -> None:
        report = running.reports[name]
        if report.phase is Phase.EXITED:
            return
        alarm = running.alarms.pop(name, None)
        if alarm is not None:
            alarm.cancel()
        now = self._timers.wall()
        running.reports[name] = structs.replace(
            report,
            phase=Phase.EXITED,
            started=report.started or now,
            finished=now,
            exit_code=code,
            reason="Completed" if code == 0 else "Error",
            ready=False,
        )

    def _recall(self, pod: Pod) -> None:
        """Take up a pod by its status: what ran runs on, what had ended has ended."""
        status = pod.get("status") or {}
        told = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        begun = [
            (structs.replace(report, image=str(one.get("imageID") or "")), one)
            for one in told
            if (report := _recalled(one)) is not None
        ]
        if not begun:
            return  # it never started: the agent begins it anew
        uid = str(pod["metadata"]["uid"])
        running = self._pods[uid] = _Running(pod, address=status.get("podIP") or self._address())
        for report, one in begun:
            running.reports[report.name] = report
            earlier = (one.get("lastState") or {}).get("terminated")
            if earlier is not None and report.attempt and "waiting" not in one["state"]:
                running.earlier[report.name] = _ended(report.name, report.attempt - 1, earlier)
            if report.phase is not Phase.RUNNING:
                continue
            try:
                plan = draw_plan(self._habits, pod, container_of(pod, report.name), report.attempt)
            except (BadAnnotation, ValueError):  # it was changed to nonsense since: let it run as it did
                plan = SimulatedPlan(math.inf, 0, 0.0, 0, 0)
            self._run(uid, report, plan, elapsed=max(0.0, self._timers.wall() - report.started))

    def _tell(self, uid: str) -> None:
        self._hear(self._report(uid))

    def _report(self, uid: str) -> PodReport:
        running = self._pods[uid]
        return PodReport(uid, tuple(running.reports.values()), running.address, running.failure)

    def _address(self) -> str:
        """The next that no pod has of which something may run; beyond 254 of them some share one."""
        taken = {running.address for running in self._pods.values() if not running.has_ended()}
        for _ in range(_ADDRESSES):
            self._addresses = self._addresses % _ADDRESSES + 1
            if f"{self._subnet}.{self._addresses}" not in taken:
                break
        return f"{self._subnet}.{self._addresses}"

    def _keep_image(self, container: Mapping[str, Any]) -> None:
        name = str(container.get("image") or "")
        if name and name not in self._images:
            # The size is of no consequence but for image locality: a plausible one, the same on all nodes.
            self._images[name] = Image((name,), 20_000_000 + sum(name.encode()) * 10_000)

    def _last(self, uid: str, container: str) -> ContainerReport:
        running = self._pods.get(uid)
        if running is None:
            raise RuntimeRefused("this node does not run that pod")
        return last_report(running.pod, running.reports, container)

    def _check_running(self, uid: str, container: str) -> None:
        if self._last(uid, container).phase is not Phase.RUNNING:
            raise RuntimeRefused(f"container {container} is not running")

    def _author(
        self, uid: str, container: str, *, previous: bool = False, attempt: int | None = None
    ) -> Author:
        report = self._last(uid, container)
        running = self._pods[uid]
        if previous:
            if container not in running.earlier:
                raise RuntimeRefused(f"previous terminated container {container} not found")
            report = running.earlier[container]
        elif attempt is not None and report.attempt != attempt:
            raise RuntimeRefused(f"attempt {attempt} at {container} is over")
        if report.phase is Phase.WAITING:
            raise RuntimeRefused(f"container {container} is waiting to start: {report.reason}")
        return Author(
            uid,
            container,
            report.attempt,
            str(container_of(running.pod, container).get("image") or "?"),
            report.started,
            report.finished if report.phase is Phase.EXITED else math.inf,
            report.exit_code,
        )


def _not_run(command: Sequence[str]) -> bytes:
    return f"this container is simulated: {' '.join(command)[:200]!r} was not run\n".encode()


def _running_plans(running: _Running) -> Iterator[tuple[str, SimulatedPlan]]:
    for name, report in running.reports.items():
        if report.phase is Phase.RUNNING:
            yield name, running.plans[name]


def _recalled(status: Mapping[str, Any]) -> ContainerReport | None:
    """The report that a container's status was once made of; None: it was never begun."""
    name, attempt = status["name"], int(status.get("restartCount") or 0)
    state = status["state"]
    if "running" in state:
        started = parse_timestamp(state["running"]["startedAt"])
        return ContainerReport(name, Phase.RUNNING, attempt, status.get("containerID") or "", started)
    # One that waits may wait for its next attempt.
    ended = state.get("terminated") or (status.get("lastState") or {}).get("terminated")
    return None if ended is None else _ended(name, attempt, ended)


def _ended(name: str, attempt: int, state: Mapping[str, Any]) -> ContainerReport:
    return ContainerReport(
        name,
        Phase.EXITED,
        attempt,
        state.get("containerID") or "",
        parse_timestamp(state["startedAt"]),
        parse_timestamp(state["finishedAt"]),
        int(state["exitCode"]),
        state.get("reason") or "",
    )
