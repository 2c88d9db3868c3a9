"""A hostile container that makes system calls itself, with real runc and containerd: it gets at no process,
no namespace and no file of the machine, and nobody gains rights by what it leaves."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from proreus.engine.runtimes.images.builder import MACHINE_PYTHON
from tests.engine.runtimes.benches import Bench, Place, pod_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="system calls of Linux")
_CALLS = """
import ctypes, errno, json, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
OPEN = []
def refused(name, result):
    if result >= 0:
        OPEN.append(name)
def call(*words):
    return libc.syscall(*(ctypes.c_long(word) if isinstance(word, int) else word for word in words))
def end():
    print(json.dumps(OPEN))
"""
_MACHINE = os.uname().machine
_NUMBERS = {
    "x86_64": {
        **{"ptrace": 101, "process_vm_readv": 310, "pidfd_open": 434, "setns": 308, "bpf": 321},
        **{"open_by_handle_at": 304, "init_module": 175, "kexec_load": 246, "acct": 163, "swapoff": 168},
        **{"perf_event_open": 298, "settimeofday": 164, "sethostname": 170, "quotactl": 179, "mount": 165},
        **{"iopl": 172, "fsopen": 430, "open_tree": 428, "pivot_root": 155},
    },
    "aarch64": {
        **{"ptrace": 117, "process_vm_readv": 270, "pidfd_open": 434, "setns": 268, "bpf": 280},
        **{"open_by_handle_at": 265, "init_module": 105, "kexec_load": 104, "acct": 89, "swapoff": 225},
        **{"perf_event_open": 241, "settimeofday": 170, "sethostname": 161, "quotactl": 60, "mount": 40},
        **{"fsopen": 430, "open_tree": 428, "pivot_root": 41},
    },
}
needs_numbers = pytest.mark.skipif(_MACHINE not in _NUMBERS, reason="numbers of calls of another machine")


def _python(script: str, name: str = "main", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": MACHINE_PYTHON, "command": ["python3", "-c", script], **fields}


async def _printed(bench: Bench, script: str, **fields: Any) -> Any:
    end, text = await bench.run(pod_of(_python(_CALLS + script, **fields)))
    assert end.exit_code == 0, text
    return json.loads(text.splitlines()[-1])


def _run(place: Place, script: str, **fields: Any) -> Any:
    async def scene() -> Any:
        async with place.bench() as bench:
            return await _printed(bench, script, **fields)

    return asyncio.run(scene())


@needs_numbers
def test_no_process_of_the_machine_is_traced_read_or_killed(contained_place: Place) -> None:
    numbers = _NUMBERS[_MACHINE]
    with subprocess.Popen(["sleep", "300"]) as victim:
        try:
            pids = sorted({victim.pid, os.getpid(), os.getppid(), 1})
            script = f"""
own = {{int(name) for name in os.listdir('/proc') if name.isdigit()}}
for pid in {pids}:
    if pid in own:
        continue
    refused(f'attach {{pid}}', call({numbers["ptrace"]}, 16, pid, 0, 0))
    refused(f'seize {{pid}}', call({numbers["ptrace"]}, 0x4206, pid, 0, 0))
    buffer = ctypes.create_string_buffer(8)
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)
    refused(f'read {{pid}}', call({numbers["process_vm_readv"]}, pid, vector, 1, vector, 1, 0))
    refused(f'pidfd {{pid}}', call({numbers["pidfd_open"]}, pid, 0))
    refused(f'kill {{pid}}', libc.kill(pid, 9))
    for file in ('mem', 'environ', 'root/etc/passwd', 'ns/mnt', 'fd'):
        if os.path.exists(f'/proc/{{pid}}/{{file}}'):
            OPEN.append(f'/proc/{{pid}}/{{file}}')
end()
"""
            assert _run(contained_place, script) == []
            assert victim.poll() is None
        finally:
            victim.kill()


@needs_numbers
def test_the_namespaces_are_the_containers_own_and_it_enters_no_other(contained_place: Place) -> None:
    """But for the network, which is the machine's, and that of users; containerd leaves pods of the machine's
    network its name, too, and on cgroup v1 its view of the cgroups, which cannot be written."""
    number = _NUMBERS[_MACHINE]["setns"]
    apart = ("mnt", "pid", "ipc", *(("uts", "cgroup") if contained_place.name == "runc" else ()))
    script = f"""
entered = {{}}
for name in os.listdir('/proc/1/ns'):
    handle = os.open(f'/proc/1/ns/{{name}}', os.O_RDONLY)
    call({number}, handle, 0)
for name in {apart}:
    entered[name] = os.readlink(f'/proc/self/ns/{{name}}')
print(json.dumps(entered))
"""
    own = _run(contained_place, script)
    machine = {name: (Path("/proc/self/ns") / name).readlink().name for name in apart}
    assert [name for name in apart if own[name] == machine[name]] == []


@needs_numbers
def test_no_file_of_the_machine_is_opened_by_its_handle(contained_place: Place) -> None:
    """A handle names an inode of the whole filesystem, wherever it is mounted: the root's is 2."""
    number = _NUMBERS[_MACHINE]["open_by_handle_at"]
    script = f"""
for path in ('/', '/etc/hosts', '/etc/resolv.conf', '/dev', '/proc', '/v'):
    try:
        mount = os.open(path, os.O_RDONLY)
    except OSError:
        continue
    for kind in (1, 2, 0x81):
        for inode in (2, 64, 128, 256):
            handle = ctypes.create_string_buffer(struct.pack('<Ii', 8, kind) + struct.pack('<Q', inode))
            refused(f'{{path}} {{kind}} {{inode}}', call({number}, mount, handle, os.O_RDONLY))
end()
"""
    mounts = [{"name": "v", "mountPath": "/v"}]

    async def scene() -> Any:
        async with contained_place.bench() as bench:
            main = _python(_CALLS + script, volumeMounts=mounts)
            end, text = await bench.run(pod_of(main, volumes=[{"name": "v", "emptyDir": {}}]))
            assert end.exit_code == 0, text
            return json.loads(text.splitlines()[-1])

    assert asyncio.run(scene()) == []


@needs_numbers
def test_the_kernels_privileged_calls_are_refused(contained_place: Place) -> None:
    numbers = _NUMBERS[_MACHINE]
    hostname = os.uname().nodename
    tries = {
        "bpf": "5, ctypes.create_string_buffer(128), 128",
        "init_module": "ctypes.create_string_buffer(64), 64, b''",
        "kexec_load": "0, 0, 0, 0",
        "acct": "0",
        "swapoff": "b'/none'",
        "settimeofday": "ctypes.create_string_buffer(16), 0",
        "sethostname": "b'hostile', 7",
        "mount": "b'x', b'/mnt', b'tmpfs', 0, b''",
        "fsopen": "b'tmpfs', 0",
        "open_tree": "-100, b'/', 1",
        "pivot_root": "b'/mnt', b'/mnt'",
        "iopl": "3",
    }
    lines = [
        f"refused({name!r}, call({numbers[name]}, {words}))"
        for name, words in tries.items()
        if name in numbers
    ]
    assert _run(contained_place, "\n".join([*lines, "end()"])) == []
    assert os.uname().nodename == hostname


def test_no_door_of_the_runtime_stands_open_in_the_network(contained_place: Place) -> None:
    """CVE-2020-15257: sockets without a file are the network's, which containers share with the machine."""
    script = """
for line in open('/proc/net/unix').read().splitlines()[1:]:
    name = line.split()[-1]
    if name.startswith('@') and any(word in name for word in ('containerd', 'shim', 'runc', 'proreus')):
        OPEN.append(name)
end()
"""
    assert _run(contained_place, script) == []


def test_a_setuid_program_gives_no_rights_inside_or_outside(contained_place: Place) -> None:
    """Made by the root of one container, run by the user of another; no user of the machine reaches it."""
    mounts = [{"name": "v", "mountPath": "/v"}]
    make = (
        "import os, shutil, sys; shutil.copy(os.path.realpath(sys.executable), '/v/python'); "
        "os.chmod('/v/python', 0o6755); print(oct(os.stat('/v/python').st_mode))"
    )
    use = (
        "import os, subprocess, sys, time\n"
        "while not (os.path.exists('/v/python') and os.stat('/v/python').st_mode & 0o6000): time.sleep(0.1)\n"
        "word = 'import os; print(os.getuid(), os.geteuid(), os.getegid())'\n"
        "home = sys.base_prefix\n"
        "print(subprocess.run(['/v/python', '-c', word], capture_output=True, text=True, "
        "env={**os.environ, 'PYTHONHOME': home}).stdout)"
    )
    user = {"runAsUser": 1000, "runAsGroup": 1000}

    async def scene() -> tuple[str, list[Path]]:
        async with contained_place.bench() as bench:
            first = _python(make, "root", volumeMounts=mounts)
            second = _python(use, volumeMounts=mounts, securityContext=user)
            pod = pod_of(first, second, volumes=[{"name": "v", "emptyDir": {}}])
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["root", "main"])
            await bench.ended(uid, "root")
            await bench.ended(uid)
            left = [file for file in contained_place.root.rglob("python") if file.is_file()]
            for file in left:
                assert _barred(file, contained_place.root), f"everybody reaches {file}"
            return await bench.text(uid), left

    text, left = asyncio.run(scene())
    assert text.split() == ["1000", "1000", "1000"], text
    assert any(file.name == "python" for file in left)


def _barred(file: Path, top: Path) -> bool:
    """Whether a folder on the way lets nobody else pass."""
    folders = [folder for folder in file.parents if folder == top or top in folder.parents]
    return any(not stat.S_IMODE(folder.stat().st_mode) & 0o001 for folder in folders)


def test_file_capabilities_give_no_more_than_the_container_has(contained_place: Place) -> None:
    """cap_sys_admin on a program: its bounding set has none, and nothing new is given anyway."""
    script = """
import shutil, subprocess
shutil.copy(os.path.realpath(sys.executable), '/tmp/python')
everything = struct.pack('<5I', 0x02000001, 0xffffffff, 0, 0xffffffff, 0)
try:
    os.setxattr('/tmp/python', 'security.capability', everything)
except OSError:
    print(json.dumps('refused'))
    raise SystemExit
word = "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('CapEff')][0])"
own = [line.split()[1] for line in open('/proc/self/status') if line.startswith('CapEff')][0]
try:
    done = subprocess.run(['/tmp/python', '-c', word], capture_output=True, text=True,
                          env={**os.environ, 'PYTHONHOME': sys.base_prefix})
except PermissionError:
    print(json.dumps('refused'))
    raise SystemExit
found = done.stdout.strip() or '0'
print(json.dumps('more' if int(found, 16) & ~int(own, 16) else 'no more'))
"""
    assert _run(contained_place, script) in ("refused", "no more")
