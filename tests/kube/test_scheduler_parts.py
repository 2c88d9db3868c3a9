"""The parts around the core: switch, events, status, bindings whose answer is lost."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

from proreus.engine.objects.event_recorder import RecordEvent
from proreus.engine.objects.kinds import POD
from proreus.engine.scheduler.instructions import BindPodTo, DelayPod, Instruction, PodRef, PreemptFor
from proreus.kubeagents.scheduler.binder import BinderOptions, KubeBinder
from proreus.kubeagents.scheduler.event_writer import EventWriter
from proreus.kubeagents.scheduler.kill_switch import KillSwitch
from proreus.kubeagents.scheduler.status_server import Answer, StatusServer, readiness
from proreus.kubeclient.client import ClientOptions, KubeClient, RetryPolicy
from proreus.kubeclient.errors import Unreachable
from proreus.kubeclient.fake import FakeApiServer
from proreus.kubeclient.reflector import Change
from proreus.kubeclient.transport import Request, Response

_QUICK = ClientOptions(answer_seconds=1.0, retry=RetryPolicy(0.3, 0.01, 0.05))
_NAME = ("kube-system", "proreus-scheduler")


def _map(stop: str, name: str = "proreus-scheduler") -> dict[str, Any]:
    return {"metadata": {"namespace": "kube-system", "name": name}, "data": {"stop": stop}}


def test_the_switch_is_a_map_or_a_file(tmp_path: Path) -> None:
    turned: list[bool] = []
    switch = KillSwitch(_NAME, tmp_path / "stop")
    switch.subscribe(lambda: turned.append(switch.on))
    switch.hear(Change("ADDED", _map("true", "another")))
    switch.hear(Change("ADDED", _map("false")))
    assert (switch.on, turned) == (False, [])
    switch.hear(Change("MODIFIED", _map(" TRUE ")))
    assert "ConfigMap kube-system/proreus-scheduler" in switch.told
    (tmp_path / "stop").touch()
    switch.look()
    switch.hear(Change("DELETED", _map("true")))
    assert "stop" in switch.told, "the file is still there"
    (tmp_path / "stop").unlink()
    switch.look()
    assert (switch.told, turned) == ("", [True, False])


def test_a_switch_that_cannot_be_seen_is_on(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert KillSwitch(_NAME, tmp_path / "file" / "stop").on


def _event(name: str, reason: str = "FailedScheduling", message: str = "no room") -> RecordEvent:
    about = {"metadata": {"namespace": "ns", "name": name, "uid": name}}
    return RecordEvent(POD, about, "Warning", reason, message)


def test_events_are_counted_when_they_repeat_and_dropped_where_the_server_is_away() -> None:
    async def main() -> None:
        server = FakeApiServer()
        now = [1000.0]
        writer = EventWriter(KubeClient(server, _QUICK), "proreus", "me", lambda: now[0])
        running = asyncio.create_task(writer.run())
        for _ in range(5):
            writer.tell(_event("p"))
            now[0] += 12.0
        await writer.drain(5.0)
        await asyncio.sleep(0.05)
        (event,) = server.all("events")
        assert event["count"] >= 3 and event["involvedObject"]["name"] == "p"
        server.down = True
        writer.tell(_event("q"))
        while not writer.dropped:
            await asyncio.sleep(0.05)
        server.down = False
        writer.tell(_event("r"))
        await writer.drain(5.0)
        await asyncio.sleep(0.1)
        assert {one["involvedObject"]["name"] for one in server.all("events")} == {"p", "r"}
        running.cancel()

    asyncio.run(main())


def _binder(server: FakeApiServer, **more: Any) -> KubeBinder:
    client = KubeClient(server, _QUICK)
    return KubeBinder(client, EventWriter(client, "proreus", "me"), lambda: (1, 0), BinderOptions(), **more)


def _bind(name: str = "p") -> BindPodTo:
    return BindPodTo(PodRef("ns", name, f"uid-{name}"), "n", {"why": "so"}, "told")


def _with_pod(server: FakeApiServer, name: str = "p", **spec: Any) -> None:
    server.put("pods", {"metadata": {"namespace": "ns", "name": name, "uid": f"uid-{name}"}, "spec": spec})


class _Loses(FakeApiServer):
    """Does what it is asked, and the answer is lost."""

    async def send(self, request: Request) -> Response:
        """A binding is done and not answered."""
        answer = await super().send(request)
        if request.target.endswith("/binding"):
            raise Unreachable("the connection broke", sent=True)
        return answer


def test_a_binding_whose_answer_is_lost_is_looked_up_and_not_asked_for_again() -> None:
    async def main() -> None:
        server = _Loses()
        _with_pod(server)
        assert await _binder(server).carry_out([_bind()], (1, 0)) == []
        asked = [request for request in server.requests if request.target.endswith("/binding")]
        assert len(asked) == 1 and server.all("pods")[0]["spec"]["nodeName"] == "n"

    asyncio.run(main())


def test_a_pod_that_somebody_else_bound_or_took_away_is_a_failure() -> None:
    async def main() -> None:
        server = FakeApiServer()
        _with_pod(server, "p", nodeName="elsewhere")
        _with_pod(server, "q", nodeName="n")
        binder = _binder(server)
        failed = await binder.carry_out([_bind("p"), _bind("q"), _bind("gone")], (1, 0))
        assert {failure.pod.name for failure in failed} == {"p", "gone"}, "q is where it was to go"

    asyncio.run(main())


def test_a_binding_that_is_forbidden_is_told_to_its_pod_and_a_mistake_of_ours_loses_nobody() -> None:
    async def main() -> None:
        server = FakeApiServer()
        _with_pod(server)

        def answer(request: Request) -> Response | None:
            if not request.target.endswith("/binding"):
                return None
            body = b'{"kind":"Status","reason":"Forbidden","message":"a webhook says no"}'
            return Response(403, body, {"content-type": "application/json"})

        server.answer = answer
        binder = _binder(server)
        (failed,) = await binder.carry_out([_bind()], (1, 0))
        assert failed.why == "a webhook says no" and not failed.told_only
        (condition,) = server.all("pods")[0]["status"]["conditions"]
        assert condition["reason"] == "SchedulerError"
        assert condition["message"] == "binding rejected: a webhook says no"

        def broken(request: Request) -> Response | None:
            raise KeyError("a mistake")

        server.answer = broken
        assert len(await binder.carry_out([_bind()], (1, 0))) == 1

    asyncio.run(main())


def test_who_may_not_write_any_more_writes_nothing() -> None:
    async def main() -> None:
        server = FakeApiServer()
        _with_pod(server)
        ref = PodRef("ns", "p", "uid-p")
        instructions: list[Instruction] = [
            _bind(),
            DelayPod(ref, "no room"),
            PreemptFor(ref, "n", (ref,), "no room"),
        ]
        failed = await _binder(server).carry_out(instructions, (1, 1))
        assert len(failed) == 3 and server.requests == []

    asyncio.run(main())


def test_who_is_not_ready_does_not_say_ok_but_what_is_missing() -> None:
    assert readiness([], synced=False) == Answer("not ready: still listing\n", good=False)
    troubles = ["pods: forbidden", "lease: gone"]
    assert readiness(troubles, synced=False) == Answer(
        "not ready: pods: forbidden\nlease: gone\n", good=False
    )
    assert readiness([], synced=True) == Answer("ok\n")
    assert readiness(troubles, synced=True) == Answer("ok\npods: forbidden\nlease: gone\n")


def test_what_status_answers() -> None:
    async def ask(port: int, text: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(text)
        try:
            return await asyncio.wait_for(reader.read(), 10)
        finally:
            writer.close()

    async def main() -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        server = StatusServer(
            {"/readyz": lambda: Answer("not yet\n", good=False), "/livez": lambda: Answer("ok\n")}
        )
        await server.start(listening)
        assert b"200 OK" in await ask(port, b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"503" in await ask(port, b"GET /readyz?verbose HTTP/1.1\r\n\r\n")
        assert b"404" in await ask(port, b"GET /../etc/passwd HTTP/1.1\r\n\r\n")
        assert b"405" in await ask(port, b"POST /livez HTTP/1.1\r\n\r\n")
        assert await ask(port, b"GET /livez HTTP/1.1\r\n" + b"x: " + b"y" * 20_000) == b""
        assert b"not yet" not in await ask(port, b"HEAD /readyz HTTP/1.1\r\n\r\n")
        await server.stop()

    asyncio.run(main())
