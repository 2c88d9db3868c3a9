"""Commands with their streams, in every runtime that runs something: input, output, terminals, ends."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from proreus.engine.runtimes.clock import LoopTimers
from proreus.engine.runtimes.protocol import (
    AttachWanted,
    Capacity,
    CommandWanted,
    ContainerSession,
    OutputStream,
    RuntimeRefused,
    TerminalSize,
)
from proreus.engine.runtimes.simulated.runtime import SimulatedRuntime
from tests.engine.runtimes.benches import PATIENCE, Bench, Place, container, lasting, pod_of

Scene = Callable[[Bench, str], Awaitable[None]]


def _in_a_pod(place: Place, scene: Scene, script: str = "sleep 300", **fields: Any) -> None:
    async def play() -> None:
        async with place.bench() as bench:
            pod = pod_of(container(script, **fields), annotations=lasting("300"))
            bench.runtime.start(pod, ["main"])
            await bench.running(pod["metadata"]["uid"])
            await asyncio.wait_for(scene(bench, pod["metadata"]["uid"]), 2 * PATIENCE)

    asyncio.run(play())


async def _until(session: ContainerSession, word: bytes, output: OutputStream = OutputStream.STDOUT) -> bytes:
    """What is printed as far as this word."""
    text = b""
    async with asyncio.timeout(PATIENCE):
        while word not in text:
            data = await session.read(output)
            assert data, f"it ended after {text!r}"
            text += data
    return text


async def _rest(session: ContainerSession, output: OutputStream = OutputStream.STDOUT) -> bytes:
    text = b""
    async with asyncio.timeout(PATIENCE):
        while data := await session.read(output):
            text += data
    return text


def test_input_is_answered_while_the_command_runs(real_place: Place) -> None:
    async def scene(bench: Bench, uid: str) -> None:
        script = "while read word; do echo got $word; echo err $word >&2; done; exit 7"
        session = await bench.runtime.begin(uid, CommandWanted("main", ("sh", "-c", script), stdin=True))
        await session.write(b"one\n")
        assert await _until(session, b"\n") == b"got one\n"
        await session.write(b"two\n")
        await session.end_input()
        assert await _rest(session) == b"got two\n"
        assert await _rest(session, OutputStream.STDERR) == b"err one\nerr two\n"
        assert await session.wait() == 7
        await session.close()

    _in_a_pod(real_place, scene)


def test_much_data_goes_through_and_none_is_lost(real_place: Place) -> None:
    async def scene(bench: Bench, uid: str) -> None:
        session = await bench.runtime.begin(uid, CommandWanted("main", ("cat",), stdin=True))
        sent = bytes(range(256)) * 16 * 1024

        async def feed() -> None:
            await session.write(sent)
            await session.end_input()

        feeding = asyncio.ensure_future(feed())
        assert await _rest(session) == sent
        await feeding
        assert await session.wait() == 0
        await session.close()

    _in_a_pod(real_place, scene)


def test_a_reader_that_does_not_read_holds_the_command_back(real_place: Place) -> None:
    async def scene(bench: Bench, uid: str) -> None:
        script = "i=0; while :; do echo 0123456789012345678901234567890123456789; done"
        session = await bench.runtime.begin(uid, CommandWanted("main", ("sh", "-c", script)))
        await _until(session, b"\n")
        await asyncio.sleep(0.2)  # nothing is read meanwhile, and nothing piles up without bound
        await session.close()

    _in_a_pod(real_place, scene)


def test_a_terminal_echoes_has_a_size_and_passes_signals_on(real_place: Place) -> None:
    async def scene(bench: Bench, uid: str) -> None:
        sized = 'until [ "$(stty size)" = "33 101" ]; do sleep 0.05; done'
        script = f"trap 'echo caught; exit 3' INT; {sized}; echo ready; while :; do sleep 0.05; done"
        order = CommandWanted("main", ("sh", "-c", script), stdin=True, tty=True)
        session = await bench.runtime.begin(uid, order)
        await session.resize(TerminalSize(101, 33))
        await _until(session, b"ready")
        await session.write(b"\x03")
        assert b"caught" in await _rest(session)
        assert await session.wait() == 3
        await session.close()

    _in_a_pod(real_place, scene)


def test_a_command_that_is_let_go_of_ends(real_place: Place, tmp_path: Path) -> None:
    if real_place.name == "containerd":
        pytest.skip("containerd ends such commands only when they notice, as with Kubernetes itself")

    async def scene(bench: Bench, uid: str) -> None:
        order = CommandWanted("main", ("sh", "-c", "trap '' TERM HUP; echo ready; exec sleep 4567"))
        session = await bench.runtime.begin(uid, order)
        await _until(session, b"ready")
        await session.close()
        for _ in range(100):
            if not _processes("sleep\0" + "4567"):
                return
            await asyncio.sleep(0.1)
        raise AssertionError("it runs on")

    _in_a_pod(real_place, scene)


def _processes(command: str) -> list[str]:
    """The processes of the machine with this command line; zombies have none."""
    names = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if place.read_bytes().rstrip(b"\0") == command.encode():
                names.append(place.parent.name)
        except OSError:  # it is gone
            continue
    return names


def test_what_it_left_behind_does_not_keep_a_command_open(real_place: Place) -> None:
    if real_place.name in ("containerd", "runc"):
        pytest.skip("containerd and runc wait for them")

    async def scene(bench: Bench, uid: str) -> None:
        order = CommandWanted("main", ("sh", "-c", "sleep 200 & echo done"))
        session = await bench.runtime.begin(uid, order)
        assert await _rest(session) == b"done\n"
        assert await session.wait() == 0
        await session.close()

    _in_a_pod(real_place, scene)


def test_attaching_shows_what_is_printed_from_now_on(real_place: Place) -> None:
    async def scene(bench: Bench, uid: str) -> None:
        session = await bench.runtime.attach(uid, AttachWanted("main", stdin=True))
        await session.write(b"hello\n")
        assert await _until(session, b"hello\n") == b"got hello\n"
        await session.write(b"end\n")
        assert await _rest(session, OutputStream.STDERR) == b"bye\n"
        assert await session.wait() == 0
        await session.close()
        assert (await bench.ended(uid)).exit_code == 4

    # It ends a moment after its last word: containerd cuts clients off when a container ends, and what was
    # printed just before may be in the log alone.
    words = 'while read word; do [ "$word" = end ] && break; echo got $word; done'
    script = f"{words}; echo bye >&2; sleep 1; exit 4"
    _in_a_pod(real_place, scene, script, stdin=True)


def test_input_for_one_client_ends_with_it(real_place: Place) -> None:
    async def scene(bench: Bench, uid: str) -> None:
        session = await bench.runtime.attach(uid, AttachWanted("main", stdin=True))
        await session.write(b"a word\n")
        await session.end_input()
        assert (await bench.ended(uid)).exit_code == 0
        await session.close()
        assert await bench.text(uid) == "a word\nover\n"

    _in_a_pod(real_place, scene, "cat; echo over", stdin=True, stdinOnce=True)


def test_input_that_a_container_does_not_take_is_refused(real_place: Place) -> None:
    async def scene(bench: Bench, uid: str) -> None:
        with pytest.raises(RuntimeRefused, match="takes no input"):
            await bench.runtime.attach(uid, AttachWanted("main", stdin=True))

    _in_a_pod(real_place, scene)


def test_ports_of_a_pod_are_reached(real_place: Place) -> None:
    async def scene(bench: Bench, uid: str) -> None:
        server = await asyncio.start_server(_echo, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        connection = await bench.runtime.connect(uid, port)
        await connection.write(b"hello")
        await connection.end()
        assert await connection.read() == b"HELLO"
        assert await connection.read() == b""
        connection.close()
        server.close()
        with pytest.raises(RuntimeRefused, match="connecting to port"):
            await bench.runtime.connect(uid, _free_port())

    _in_a_pod(real_place, scene)


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write((await reader.read()).upper())
    await writer.drain()
    writer.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_container_that_does_not_run_is_refused(place: Place) -> None:
    async def scene(bench: Bench, uid: str) -> None:
        await bench.stop(uid)
        with pytest.raises(RuntimeRefused, match="not running"):
            await bench.runtime.begin(uid, CommandWanted("main", ("true",)))
        with pytest.raises(RuntimeRefused, match="not running"):
            await bench.runtime.attach(uid, AttachWanted("main"))
        with pytest.raises(RuntimeRefused):
            await bench.runtime.connect(uid, 80)

    _in_a_pod(place, scene)


@pytest.mark.parametrize(
    ("program", "code", "why"),
    [
        ("no-such-program", 127, "not found in the container"),
        ("/no/such/program", 127, "not found in the container"),
        ("/etc", 126, "cannot be executed in the container"),
    ],
)
def test_a_command_that_cannot_be_begun_ends_as_in_a_shell_with_every_runtime(
    real_place: Place, program: str, code: int, why: str
) -> None:
    line = f"{program}: {why}\n".encode()

    async def scene(bench: Bench, uid: str) -> None:
        for stdin in (b"", b"input"):
            result = await bench.runtime.execute(uid, "main", [program, "word"], stdin)
            assert (result.exit_code, result.stderr, result.stdout) == (code, line, b"")
        for tty in (False, True):
            wanted = CommandWanted("main", (program, "word"), stdin=tty, tty=tty)
            session = await bench.runtime.begin(uid, wanted)
            text = await _rest(session, OutputStream.STDOUT if tty else OutputStream.STDERR)
            assert text.replace(b"\r\n", b"\n") == line
            assert await session.wait() == code
            await session.close()

    _in_a_pod(real_place, scene)


def test_a_command_that_complains_like_runc_is_not_taken_for_it(real_place: Place) -> None:
    async def scene(bench: Bench, uid: str) -> None:
        quoted = json.dumps({"msg": 'exec failed: exec: "x": no such file or directory'})
        for complaint, code in (("{ exec failed", 255), (quoted, 3)):
            command = ["sh", "-c", 'echo "$0" >&2; exit $1', complaint, str(code)]
            result = await bench.runtime.execute(uid, "main", command)
            assert (result.exit_code, result.stderr.decode()) == (code, f"{complaint}\n")

    _in_a_pod(real_place, scene)


def test_a_simulated_container_says_that_it_is_one() -> None:
    async def scene() -> None:
        amounts = {"cpu": "4"}
        bench = Bench(SimulatedRuntime(Capacity(amounts, amounts), LoopTimers()), "simulated")
        bench.runtime.subscribe(bench.hear)
        pod = pod_of(container("sleep 300"), annotations=lasting("300"))
        uid = pod["metadata"]["uid"]
        bench.runtime.start(pod, ["main"])
        await bench.running(uid)
        session = await bench.runtime.begin(uid, CommandWanted("main", ("ls",), stdin=True))
        await session.write(b"ignored")
        assert b"was not run" in await _rest(session, OutputStream.STDERR)
        assert await session.wait() == 126
        await session.close()
        attached = await bench.runtime.attach(uid, AttachWanted("main"))
        await bench.stop(uid)
        assert b"exiting with code" in await _rest(attached)
        assert await attached.wait() == 0
        await attached.close()

    asyncio.run(scene())
