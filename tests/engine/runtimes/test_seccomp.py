"""Which system calls containers are refused: by the kernel, and by the program that it is given."""

from __future__ import annotations

import asyncio
import ctypes
import ctypes.util
import errno
import struct

import pytest

from proreus.engine.runtimes import seccomp
from proreus.engine.runtimes.backend import LaunchRefused
from proreus.engine.runtimes.seccomp import compiled_filter, runc_filter
from tests.engine.runtimes.benches import Place, container, pod_of

_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_DEFAULT = {"type": "RuntimeDefault"}
_LOOK = """
grep -w Seccomp: /proc/self/status | tr -dc 0-9
unshare -U true 2>/dev/null && echo ' new' || echo ' refused'
"""


def test_a_container_is_filtered_as_its_pod_wants(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            filtered = [
                ({"seccompProfile": _DEFAULT}, {}),
                ({"seccompProfile": _DEFAULT, "allowPrivilegeEscalation": True}, {}),
                ({}, {"seccompProfile": _DEFAULT}),
            ]
            free = [({"seccompProfile": {"type": "Unconfined"}}, {"seccompProfile": _DEFAULT}), ({}, {})]
            pods = [
                pod_of(container(_LOOK, securityContext=own), securityContext=pods)
                for own, pods in (*filtered, *free)
            ]
            texts = [text for _, text in await asyncio.gather(*(bench.run(pod) for pod in pods))]
            assert texts[:3] == ["2 refused\n"] * 3
            assert [text.split()[0] for text in texts[3:]] == ["0", "0"]

    asyncio.run(scene())


def test_commands_in_a_filtered_container_are_filtered(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            pod = pod_of(container("sleep 300", securityContext={"seccompProfile": _DEFAULT}))
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            await bench.running(uid)
            done = await bench.runtime.execute(uid, "main", ["/bin/sh", "-c", _LOOK])
            assert done.stdout == b"2 refused\n"

    asyncio.run(scene())


def test_a_profile_of_ones_own_is_refused(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            own = {"type": "Localhost", "localhostProfile": "mine.json"}
            pod = pod_of(container("true", securityContext={"seccompProfile": own}))
            bench.runtime.start(pod, ["main"])
            found = await bench.until(pod["metadata"]["uid"], lambda one: bool(one["main"].message))
            assert found["main"].reason == "CreateContainerConfigError"
            message = "seccompProfile Localhost is not supported on this node, RuntimeDefault is"
            assert found["main"].message == message

    asyncio.run(scene())


@pytest.fixture(params=sorted(_MACHINES))
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Either kind of machine that there is a filter for."""
    monkeypatch.setattr("platform.machine", lambda: request.param)
    return str(request.param)


def _verdict(program: bytes, machine: int, number: int, argument: int = 0) -> int:
    """What the kernel makes of the program: the few instructions that there are in it."""
    steps = list(struct.iter_unpack("=HBBI", program))
    seen = struct.pack("=IIQQ", number, machine, 0, argument)
    register, at = 0, 0
    while True:
        code, yes, no, value = steps[at]
        at += 1
        match code:
            case 0x20:
                (register,) = struct.unpack_from("=I", seen, value)
            case 0x15:
                at += yes if register == value else no
            case 0x35:
                at += yes if register >= value else no
            case 0x45:
                at += yes if register & value else no
            case 0x06:
                return int(value)
            case _:
                raise AssertionError(f"instruction {code:#x}")


def test_the_program_refuses_what_it_should_and_no_more(machine: str) -> None:
    program, kind = compiled_filter(()), _MACHINES[machine]
    column = 1 if machine == "x86_64" else 2
    calls = [call for calls in seccomp._REFUSED.values() for call in calls]
    refused = {call[column] for call in calls if call[column] is not None}
    clone = 56 if machine == "x86_64" else 220
    for number in range(500):
        wanted = _ALLOW
        if number in refused:
            wanted = _FAIL | errno.EPERM
        elif number == 435:
            wanted = _FAIL | errno.ENOSYS
        assert _verdict(program, kind, number) == wanted, number
    for flag in (0x20000, 0x10000000, 0x40000000 | 0x11):
        assert _verdict(program, kind, clone, flag) == _FAIL | errno.EPERM
    assert _verdict(program, kind, clone, 0x3D0F00) == _ALLOW, "a thread"
    assert _verdict(program, 0x40000003, 1) == _FAIL | errno.ENOSYS, "a program for another machine"
    if machine == "x86_64":
        assert _verdict(program, kind, 0x40000000 | 165) == _FAIL | errno.ENOSYS


def test_capabilities_allow_again_what_they_are_for(machine: str) -> None:
    mount, clone = (165, 56) if machine == "x86_64" else (40, 220)
    may = compiled_filter({"SYS_ADMIN"})
    assert _verdict(may, _MACHINES[machine], mount) == _ALLOW
    assert _verdict(may, _MACHINES[machine], clone, 0x10000000) == _ALLOW
    assert _verdict(may, _MACHINES[machine], 425) == _FAIL | errno.EPERM
    names = [name for rule in runc_filter({"SYS_ADMIN"})["syscalls"] for name in rule["names"]]
    assert "io_uring_setup" in names and not {"mount", "clone", "clone3"}.intersection(names)


def test_the_numbers_are_the_kernels(machine: str) -> None:
    library = ctypes.util.find_library("seccomp")
    if library is None:
        pytest.skip("there is no libseccomp here to ask")
    resolve = ctypes.CDLL(library).seccomp_syscall_resolve_name_arch
    resolve.argtypes = (ctypes.c_uint32, ctypes.c_char_p)
    calls = [call for calls in seccomp._REFUSED.values() for call in calls]
    for call in (*calls, seccomp._CLONE, seccomp._CLONE3):
        number = resolve(_MACHINES[machine], call.name.encode())
        ours = call.x86_64 if machine == "x86_64" else call.aarch64
        assert number == ours or (ours is None and number < 0), call.name


def test_a_machine_without_a_filter_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(LaunchRefused, match="riscv64"):
        compiled_filter(())
