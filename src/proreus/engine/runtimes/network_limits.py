"""Holds the processes of a cgroup to a rate of network, sent and received each, by programs in the kernel.

A small BPF program stands at either way of the cgroup (version 2). It keeps one number, the moment up to
which the rate is spent: a packet moves it on by its length, and is dropped where it is too far ahead of the
clock (the generic cell rate algorithm). TCP slows down by that. Nothing of the machine's interfaces is
changed, and the programs go with the cgroup, whoever was killed before.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from functools import cache
from pathlib import Path

_SYSCALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}
_MAP_CREATE, _PROG_LOAD, _PROG_ATTACH = 0, 5, 8
_ARRAY, _CGROUP_SKB = 2, 8
_RECEIVED, _SENT = 0, 1
"""Attach types of the kernel; also the places of the two numbers."""
_ALLOW_MULTI = 2
"""Others may have programs at the same cgroup."""
_LOOK_UP, _CLOCK = 1, 5
"""Functions of the kernel that programs may call."""
_SECOND = 1_000_000_000
_AHEAD = _SECOND // 2
"""Nanoseconds of its rate that a container may send at once: with less, TCP on a short way stands still for
longer than it takes to earn the next packets."""
_TRIES = 8
"""Two processors may want to move the number on; who has lost so often drops the packet."""
_KEEP, _DROP, _DROP_AND_TELL = 1, 0, 2
"""The last is for what is sent: the sender's TCP hears of it at once and sends it later."""


def hold_network(folder: Path, rate: int) -> None:
    """From now on sockets that processes of this cgroup make send and receive so many bytes a second."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    spent = _bpf(_MAP_CREATE, struct.pack("=IIII", _ARRAY, 4, 8, 2))
    try:
        for way in (_RECEIVED, _SENT):
            program = _load(_program(spent, way, rate), way)
            try:
                _bpf(_PROG_ATTACH, struct.pack("=IIIII", place, program, way, _ALLOW_MULTI, 0))
            finally:
                os.close(program)
    finally:
        os.close(spent)
        os.close(place)


@cache
def no_network_programs() -> str:
    """Why the kernel takes no such program from this process; "": it does."""
    try:
        spent = _bpf(_MAP_CREATE, struct.pack("=IIII", _ARRAY, 4, 8, 2))
        try:
            for way in (_RECEIVED, _SENT):
                os.close(_load(_program(spent, way, _SECOND), way))
        finally:
            os.close(spent)
    except OSError as error:
        return f"this machine takes no BPF programs for cgroups ({error.strerror})"
    return ""


def _program(spent: int, way: int, rate: int) -> bytes:
    """Instructions; registers: r6 packet, r7 its cost in ns, r8 where the number is, r9 now."""
    refused = _DROP_AND_TELL if way == _SENT else _DROP
    begin = (
        _code(0xBF, 6, 1),
        _code(0x61, 7, 6),  # r7 = packet->len
        _code(0x62, 10, 0, -4, way),  # the key, on the stack
        _code(0xBF, 2, 10),
        _code(0x07, 2, 0, 0, -4),
        _constant(1, spent, of_map=True),
        _code(0x85, imm=_LOOK_UP),
        _code(0x55, 0, 0, 2, 0),  # the array has it: the verifier wants the question
        _code(0xB7, 0, imm=_KEEP),
        _code(0x95),
        _code(0xBF, 8, 0),
        _code(0x85, imm=_CLOCK),
        _code(0xBF, 9, 0),
        _code(0x27, 7, imm=_SECOND),
        _constant(1, rate),
        _code(0x3F, 7, 1),  # r7 = len * second / rate
    )
    length = 11
    tries = [
        instruction
        for left in range(_TRIES - 1, -1, -1)
        for instruction in (
            _code(0x79, 1, 8),  # r1 = the number
            _code(0xBF, 2, 1),
            _code(0x3D, 2, 9, 1),  # r2 = max(r1, now): what was not used is lost
            _code(0xBF, 2, 9),
            _code(0xBF, 3, 2),
            _code(0x1F, 3, 9),
            _code(0x25, 3, 0, length - 7 + left * length, _AHEAD),  # too far ahead: drop it
            _code(0x0F, 2, 7),
            _code(0xBF, 0, 1),
            _code(0xDB, 8, 2, 0, 0xF1),  # the number becomes r2, if it is still r1
            _code(0x1D, 0, 1, left * length + 2),  # it was: keep the packet
        )
    ]
    end = (_code(0xB7, 0, imm=refused), _code(0x95), _code(0xB7, 0, imm=_KEEP), _code(0x95))
    return b"".join((*begin, *tries, *end))


def _code(code: int, to: int = 0, source: int = 0, offset: int = 0, imm: int = 0) -> bytes:
    return struct.pack("=BBhi", code, to | source << 4, offset, imm)


def _constant(to: int, value: int, *, of_map: bool = False) -> bytes:
    """Sixty-four bits, in two instructions; of a map: its descriptor."""
    low, high = struct.unpack("=ii", struct.pack("=II", value & 0xFFFFFFFF, value >> 32))
    return _code(0x18, to, int(of_map), 0, low) + _code(0, imm=high)


def _load(program: bytes, way: int) -> int:
    instructions = ctypes.create_string_buffer(program, len(program))
    licence = ctypes.create_string_buffer(b"GPL")
    addresses = ctypes.addressof(instructions), ctypes.addressof(licence)
    name = b"network_rate"
    attributes = (_CGROUP_SKB, len(program) // 8, *addresses, 0, 0, 0, 0, 0, name, 0, way)
    return _bpf(_PROG_LOAD, struct.pack("=IIQQIIQII16sII", *attributes))


def _bpf(command: int, attributes: bytes) -> int:
    """The system call, for which neither Python nor the C library has a function."""
    number = _SYSCALL.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    found = int(ctypes.CDLL(None, use_errno=True).syscall(number, command, buffer, len(attributes)))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found
