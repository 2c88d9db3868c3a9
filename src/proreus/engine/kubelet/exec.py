"""Into the containers that run: their output, commands in them, their own streams, and their ports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping

from proreus.engine.kubelet.pod_record import PodRecord
from proreus.engine.runtimes import logs
from proreus.engine.runtimes.backend import Backend, Written
from proreus.engine.runtimes.pod_reports import container_of, last_report
from proreus.engine.runtimes.ports import reach
from proreus.engine.runtimes.protocol import (
    AttachWanted,
    ContainerReport,
    ContainerSession,
    LogWanted,
    Phase,
    RuntimeRefused,
)
from proreus.engine.wire.duplex import Connection


class ContainerAccess:
    """Of the pods that stand now."""

    def __init__(self, backend: Backend, pods: Mapping[str, PodRecord]) -> None:
        self._backend, self._pods = backend, pods

    def logs(self, uid: str, wanted: LogWanted) -> AsyncIterator[bytes]:
        """The container's log files."""
        standing, report = self._last(uid, wanted.container)
        attempt = report.attempt
        if wanted.previous:
            if wanted.container not in standing.earlier:
                raise RuntimeRefused(f"previous terminated container {wanted.container} not found")
            attempt = standing.earlier[wanted.container][0]
        elif report.phase is Phase.WAITING and not report.started:
            raise RuntimeRefused(f"container {wanted.container} is waiting to start: {report.reason}")

        ended = self._over(uid, standing, wanted.container, attempt)
        return logs.read(self._backend.log(uid, wanted.container, attempt), wanted, ended)

    async def attach(self, uid: str, wanted: AttachWanted) -> ContainerSession:
        """The container that runs, this attempt at it."""
        id = self.running(uid, wanted.container)
        standing, report = self._last(uid, wanted.container)
        spec = container_of(standing.pod, wanted.container)
        if wanted.stdin and not spec.get("stdin"):
            raise RuntimeRefused(f"container {wanted.container} takes no input: its spec has no stdin")
        log = self._backend.log(uid, wanted.container, report.attempt)
        over = self._over(uid, standing, wanted.container, report.attempt)
        return await self._backend.attach(id, wanted, Written(log, over, bool(spec.get("stdinOnce"))))

    async def connect(self, uid: str, port: int) -> Connection:
        """The pods' network is the machine's."""
        standing = self._pods.get(uid)
        if standing is None or not any(report.phase is Phase.RUNNING for report in standing.reports.values()):
            raise RuntimeRefused("the pod is not running")
        return await reach(port)

    def running(self, uid: str, container: str) -> str:
        """The backend's word for the container that runs, be its hook still under way."""
        standing, report = self._last(uid, container)
        if report.phase is Phase.EXITED or not report.started:
            raise RuntimeRefused(f"container {container} is not running")
        return standing.ids[container]

    def _over(self, uid: str, standing: PodRecord, name: str, attempt: int) -> Callable[[], bool]:
        """Whether an attempt has ended."""

        def ended() -> bool:
            now = standing.reports[name]
            return self._pods.get(uid) is not standing or now.attempt != attempt or now.phase is Phase.EXITED

        return ended

    def _last(self, uid: str, container: str) -> tuple[PodRecord, ContainerReport]:
        standing = self._pods.get(uid)
        if standing is None:
            raise RuntimeRefused("this node does not run that pod")
        return standing, last_report(standing.pod, standing.reports, container)
