"""Lifecycle hooks, with every runtime that really runs something."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from proreus.engine.kubelet.handlers import Reached
from proreus.engine.kubelet.hooks import HookFailed, run_hook
from proreus.engine.kubelet.termination import EXTENSION
from proreus.engine.runtimes.protocol import CommandResult, ContainerReport, Phase
from tests.engine.runtimes.benches import Bench, Place, container, happened, pod_of

ROOT = '"$PROREUS_ROOT"'
_SHARED = [{"name": "shared", "mountPath": "/shared"}]
_VOLUMES = [{"name": "shared", "emptyDir": {}}]
_WAITS = "trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.05; done"


def _exec(script: str) -> dict[str, Any]:
    return {"exec": {"command": ["/bin/sh", "-c", script]}}


def _pod(script: str, lifecycle: dict[str, Any], **spec: Any) -> dict[str, Any]:
    main = container(script, lifecycle=lifecycle, volumeMounts=_SHARED)
    return pod_of(main, volumes=_VOLUMES, **spec)


def _told(report: ContainerReport) -> list[tuple[str, str, str]]:
    return happened(report, since_start=True)


async def _says(bench: Bench, uid: str, word: str) -> None:
    await bench.running(uid)
    async with asyncio.timeout(60):
        while word not in await bench.text(uid):
            await asyncio.sleep(0.02)


@asynccontextmanager
async def _server(code: bytes) -> AsyncIterator[tuple[int, list[bytes]]]:
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.write(b"HTTP/1.1 " + code + b"\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], asked
    finally:
        server.close()
        await server.wait_closed()


def test_a_container_runs_once_its_hook_is_through(real_place: Place) -> None:
    """Until then it waits, and commands get in already."""

    async def scene() -> None:
        async with real_place.bench() as bench:
            hook = _exec(
                f"echo begun > {ROOT}/shared/hook; while ! test -e {ROOT}/shared/go; do sleep 0.05; done"
            )
            pod = _pod("trap 'exit 0' TERM; while :; do sleep 0.05; done", {"postStart": hook})
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            found = await bench.until(uid, lambda one: bool(one["main"].started))
            assert found["main"].phase is Phase.WAITING and found["main"].reason == "ContainerCreating"
            script = f"while ! test -e {ROOT}/shared/hook; do sleep 0.05; done; touch {ROOT}/shared/go"
            done = await bench.runtime.execute(uid, "main", ["/bin/sh", "-c", script])
            assert done.exit_code == 0
            assert _told(await bench.running(uid)) == []
            await bench.stop(uid, 30.0)

    asyncio.run(scene())


def test_who_is_listed_after_waits_for_the_hook(real_place: Place) -> None:
    """Kubernetes starts one container after the other, each with its hook."""

    async def scene() -> None:
        async with real_place.bench() as bench:
            hook = _exec(
                f"while ! test -e {ROOT}/shared/go; do sleep 0.05; done; echo hook >> {ROOT}/shared/order"
            )
            first = container("sleep 300", "first", lifecycle={"postStart": hook}, volumeMounts=_SHARED)
            second = container(
                f"echo second >> {ROOT}/shared/order; sleep 300", "second", volumeMounts=_SHARED
            )
            refused = container(
                "true", "refused", securityContext={"privileged": True}, lifecycle={"postStart": hook}
            )
            pod = pod_of(refused, first, second, volumes=_VOLUMES)
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["refused", "first", "second"])
            await bench.until(uid, lambda one: bool(one["first"].started))
            await asyncio.sleep(0.3)
            assert not bench.reports[uid].containers[2].started
            await bench.runtime.execute(uid, "first", ["/bin/sh", "-c", f"touch {ROOT}/shared/go"])
            await bench.running(uid, "second")
            order = next(real_place.root.rglob("shared/order"))
            async with asyncio.timeout(60):
                while order.read_text() != "hook\nsecond\n":
                    await asyncio.sleep(0.02)

    asyncio.run(scene())


def test_a_container_whose_first_hook_fails_is_killed(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            bad = {
                "exit code 3: why": _exec("echo why; exit 3"),
                "invalid handler": {"tcpSocket": {"port": 80}},
                "70000 is not a port": {"httpGet": {"port": 70000}},
            }
            pods = [
                _pod("sleep 300", {"postStart": hook}, terminationGracePeriodSeconds=0)
                for hook in bad.values()
            ]
            for pod in pods:
                bench.runtime.start(pod, ["main"])
            for pod, message in zip(pods, bad, strict=True):
                end = await bench.ended(pod["metadata"]["uid"])
                assert (end.exit_code, end.reason) == (137, "Error")
                assert message in end.message
                assert _told(end) == [
                    ("Warning", "FailedPostStartHook", "PostStartHook failed"),
                    ("Normal", "Killing", "FailedPostStartHook"),
                ]
            phases = {
                container_report.phase for report in bench.history for container_report in report.containers
            }
            assert Phase.RUNNING not in phases

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        ({"exec": {}}, "there is no command"),
        ({"httpGet": {"path": "/"}}, "no port None"),
        ({"httpGet": {"port": 1, "path": "//elsewhere/"}}, "is not a path"),
        ({"tcpSocket": {"port": 1}}, "invalid handler: tcpSocket"),
    ],
)
def test_hooks_that_make_no_sense_fail(handler: dict[str, Any], words: str) -> None:
    async def execute(command: list[str], limit: float) -> CommandResult:
        raise AssertionError("nothing is to be executed")

    with pytest.raises(HookFailed, match=words):
        asyncio.run(run_hook(handler, Reached({"name": "main"}, "127.0.0.1", execute)))


def test_the_last_hook_comes_before_the_container_is_asked_to_end(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            hook = _exec(f"sleep 0.2; echo hook > {ROOT}/shared/order")
            script = f"trap 'cat {ROOT}/shared/order; exit 0' TERM; echo up; while :; do sleep 0.05; done"
            pod = _pod(script, {"preStop": hook})
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            await _says(bench, uid, "up")
            await bench.stop(uid, 60.0)
            end = await bench.ended(uid)
            assert (end.exit_code, _told(end)) == (0, [])
            assert await bench.text(uid) == "up\nhook\n"

    asyncio.run(scene())


def test_a_last_hook_that_fails_is_told_and_no_more(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            pod = _pod(_WAITS, {"preStop": _exec("exit 1")})
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            await _says(bench, uid, "up")
            await bench.stop(uid, 60.0)
            end = await bench.ended(uid)
            assert end.exit_code == 0
            assert _told(end) == [("Warning", "FailedPreStopHook", "PreStopHook failed")]
            assert await bench.text(uid) == "up\nasked\n"

    asyncio.run(scene())


def test_a_last_hook_has_the_grace_and_the_container_a_moment_more(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            pod = _pod(_WAITS, {"preStop": {"sleep": {"seconds": 300}}})
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            await _says(bench, uid, "up")
            began = time.monotonic()
            await bench.stop(uid, 0.5)
            assert 0.5 <= time.monotonic() - began < 60
            assert (await bench.ended(uid)).exit_code == 0, f"it had {EXTENSION:g} s to end by itself"
            assert await bench.text(uid) == "up\nasked\n"

    asyncio.run(scene())


def test_no_grace_is_no_hook(real_place: Place) -> None:
    """Neither is one waited for that runs already."""

    async def scene() -> None:
        async with real_place.bench() as bench:
            script = f"touch {ROOT}/shared/begun; sleep 300"
            pod = _pod("trap '' TERM; echo up; while :; do sleep 0.05; done", {"preStop": _exec(script)})
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            await _says(bench, uid, "up")
            bench.runtime.stop(uid, 300.0)
            looking = f"while ! test -e {ROOT}/shared/begun; do sleep 0.05; done"
            await bench.runtime.execute(uid, "main", ["/bin/sh", "-c", looking])
            await bench.stop(uid, 0.0)
            assert (await bench.ended(uid)).exit_code == 137

    asyncio.run(scene())


def test_hooks_over_the_network(real_place: Place) -> None:
    """As with a kubelet, any answer does; none at all does not."""

    async def scene() -> None:
        async with real_place.bench() as bench, _server(b"500 Broken") as (port, asked):
            get = {"httpGet": {"port": "web", "path": "/hook"}}
            main = container(
                _WAITS,
                ports=[{"name": "web", "containerPort": port}],
                lifecycle={"postStart": get, "preStop": get},
            )
            pod = pod_of(main)
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            await _says(bench, uid, "up")
            assert asked == [b"GET /hook HTTP/1.1\r\n"]
            await bench.stop(uid, 60.0)
            assert asked == [b"GET /hook HTTP/1.1\r\n"] * 2
            assert _told(await bench.ended(uid)) == []
            with socket.socket() as closed:
                closed.bind(("127.0.0.1", 0))
                deaf = {"postStart": {"httpGet": {"port": closed.getsockname()[1]}}}
                broken = pod_of(container("sleep 300", lifecycle=deaf), terminationGracePeriodSeconds=0)
                bench.runtime.start(broken, ["main"])
                end = await bench.ended(broken["metadata"]["uid"])
                assert [reason for _, reason, _ in _told(end)] == ["FailedPostStartHook", "Killing"]

    asyncio.run(scene())


def test_a_hook_that_was_cut_off_is_run_again(real_place: Place) -> None:
    """The agent was killed while it ran: at least once is what hooks are promised."""

    async def scene() -> None:
        script = f"echo x >> {ROOT}/shared/runs; while ! test -e {ROOT}/shared/go; do sleep 0.05; done"
        pod = _pod("sleep 300", {"postStart": _exec(script)})
        uid = pod["metadata"]["uid"]
        async with real_place.open() as bench:
            bench.runtime.start(pod, ["main"])
            await bench.until(uid, lambda one: bool(one["main"].started))
            looking = f"while ! test -e {ROOT}/shared/runs; do sleep 0.05; done"
            await bench.runtime.execute(uid, "main", ["/bin/sh", "-c", looking])
        async with real_place.open() as bench:
            (report,) = bench.runtime.adopt([pod])
            assert report.containers[0].phase is Phase.WAITING
            await bench.runtime.execute(uid, "main", ["/bin/sh", "-c", f"touch {ROOT}/shared/go"])
            await bench.running(uid)
            done = await bench.runtime.execute(uid, "main", ["/bin/sh", "-c", f"cat {ROOT}/shared/runs"])
            assert done.stdout == b"x\nx\n"
        async with real_place.bench() as bench:
            (report,) = bench.runtime.adopt([pod])
            assert report.containers[0].phase is Phase.RUNNING, "through is through"
            await bench.stop(uid)

    asyncio.run(scene())


def test_sidecars_run_their_hooks_with_the_others_and_end_after_them(real_place: Place) -> None:
    """One after the other, the last begun first."""

    async def scene() -> None:
        async with real_place.bench() as bench:
            note = f"echo $WHO >> {ROOT}/shared/ends"
            script = f"trap '{note}; exit 0' TERM; echo up; while :; do sleep 0.05; done"
            hook = {"preStop": _exec(f"touch {ROOT}/shared/hook-$WHO")}
            waits = (
                f"trap 'while ! test -e {ROOT}/shared/hook-first; do sleep 0.05; done; {note}; exit 0' TERM"
            )
            names = ("first", "second")
            sidecars = [
                container(
                    script,
                    name,
                    restartPolicy="Always",
                    env=[{"name": "WHO", "value": name}],
                    lifecycle=hook,
                    volumeMounts=_SHARED,
                )
                for name in names
            ]
            main = container(
                f"{waits}; echo up; while :; do sleep 0.05; done",
                env=[{"name": "WHO", "value": "main"}],
                volumeMounts=_SHARED,
            )
            pod = pod_of(main, initContainers=sidecars, volumes=_VOLUMES)
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, [*names, "main"])
            for name in (*names, "main"):
                await bench.running(uid, name)
                async with asyncio.timeout(60):
                    while "up" not in await bench.text(uid, name):
                        await asyncio.sleep(0.02)
            bench.runtime.stop(uid, 60.0)
            found = await bench.until(
                uid, lambda one: all(each.phase is Phase.EXITED for each in one.values())
            )
            assert {container_report.exit_code for container_report in found.values()} == {0}
            ends = next(real_place.root.rglob("shared/ends"))
            assert ends.read_text() == "main\nsecond\nfirst\n"

    asyncio.run(scene())
