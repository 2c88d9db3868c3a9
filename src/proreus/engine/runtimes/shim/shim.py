"""The keeper of one container: a small process of its own, so that a container outlives the agent.

It starts the container, writes what it says to log files of bounded size, stops it when told, kills whatever
of it is left when its first process ends, and leaves a note of how it ended. An agent that comes back finds
the keeper by the lock that it holds and the note with its process id. It is run as a script by a bare
interpreter (`python -I -S shim.py FOLDER`), hence the standard library alone.

In the folder: `spec.json` (what to run), `lock` (held while the keeper lives), `keeper.json` (the processes),
`stop.json` (until when the container may take to end), `exit.json` (how it ended), `stdin` (a pipe to the
container's input, where it has one: open until the container ends, or until SIGUSR1 says that the one client
that it was for has gone).
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import select
import signal
import stat
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

SPEC, LOCK, KEEPER, STOP, EXIT, STDIN = "spec.json", "lock", "keeper.json", "stop.json", "exit.json", "stdin"
CANNOT_START = 128
"""Exit code of a container whose command could not be run."""
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 24, 36, 38
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_CLONE_NEWNS, _MS_REC, _MS_PRIVATE = 0x20000, 0x4000, 1 << 18
_MS_NOSUID, _MS_NODEV, _MS_BIND = 2, 4, 0x1000
_WAY = "mode=0711,size=1m"
"""What stands in for folders that do not let a container's user through: others may pass, and see nothing."""
_LAST_CAPABILITY = 63
_CHUNK = 1 << 16
_LONGEST_LINE = 16 * 1024
_DRAIN_SECONDS, _KILL_SECONDS = 2.0, 10.0
_libc = ctypes.CDLL(None, use_errno=True)


class Log:
    """Lines with their moment and stream, as CRI writes them, in files of bounded size."""

    def __init__(self, path: str, most_bytes: int, files: int) -> None:
        self._path, self._most, self._files = path, most_bytes, files
        self._open()
        self._rest = {"stdout": b"", "stderr": b""}

    def _open(self) -> None:
        self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._size = os.fstat(self._fd).st_size

    def take(self, stream: str, data: bytes) -> None:
        """Something was said; what is not a whole line yet waits for the rest of it."""
        head = _head(stream)
        *lines, rest = (self._rest[stream] + data).split(b"\n")
        written = [part for line in lines for part in _parts(head, line)]
        while len(rest) > _LONGEST_LINE:
            written.append(head + b"P " + rest[:_LONGEST_LINE] + b"\n")
            rest = rest[_LONGEST_LINE:]
        self._rest[stream] = rest
        full = 0
        for number, part in enumerate(written):
            if self._size and self._size + len(part) > self._most:
                self._write(written[full:number])
                full = number
                self._turn_over()
            self._size += len(part)
        self._write(written[full:])

    def finish(self) -> None:
        """No more comes: what has no end of line is written as the part of a line that it is."""
        for stream, rest in self._rest.items():
            if rest:
                self._write([_head(stream) + b"P " + rest + b"\n"])

    def _write(self, parts: list[bytes]) -> None:
        try:
            os.write(self._fd, b"".join(parts))
        except OSError:  # a full disk costs lines, never the container
            return

    def _turn_over(self) -> None:
        os.close(self._fd)
        put_aside(self._path, self._files)
        self._open()


def put_aside(log: str, files: int) -> None:
    """A log that is full becomes LOG.1, that one LOG.2 and so on; of so many files in all the oldest goes."""
    for number in range(files - 1, 0, -1):
        older = log if number == 1 else f"{log}.{number - 1}"
        if os.path.exists(older):  # noqa: PTH110 - paths are strings here, for the start's sake
            os.replace(older, f"{log}.{number}")  # noqa: PTH105
    if files == 1:
        os.unlink(log)  # noqa: PTH108


def _head(stream: str) -> bytes:
    """How a line of this moment begins."""
    nanoseconds = time.time_ns()
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(nanoseconds // 10**9))
    return f"{moment}.{nanoseconds % 10**9:09d}Z {stream} ".encode()


def _parts(head: bytes, line: bytes) -> list[bytes]:
    """One line as it is written; a very long one in parts."""
    if len(line) <= _LONGEST_LINE:
        return [head + b"F " + line + b"\n"]
    cuts = range(0, len(line), _LONGEST_LINE)
    return [
        head + (b"F " if at + _LONGEST_LINE >= len(line) else b"P ") + line[at : at + _LONGEST_LINE] + b"\n"
        for at in cuts
    ]


class ContainerShim:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spec: dict[str, Any] = json.loads((folder / SPEC).read_bytes())
        log = self.spec["log"]
        self.log = Log(log["path"], log["bytes"], log["files"])
        self.main = 0
        self.status: int | None = None
        self.deadline: float | None = None
        self.poll = select.poll()
        self.streams: dict[int, str] = {}
        self.input: int | None = None
        """The end of the container's input that keeps it open while nobody is attached."""

    def run(self) -> None:
        """The whole life of the container."""
        wake = _wake_on_signals()
        self.poll.register(wake, select.POLLIN)
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        me = {"pid": os.getpid(), "start": start_time(os.getpid())}
        write_note(self.folder / KEEPER, me)
        pipes = [os.pipe(), os.pipe()]
        try:
            given = self._open_input()
            self.main = self._launch(given, pipes[0][1], pipes[1][1])
            os.close(given)
        except (OSError, CannotRun) as error:
            self._tell({"error": str(error)})
            self._leave(CANNOT_START, "StartError", str(error))
            return
        started = time.time()
        container = {"container": self.main, "container_start": start_time(self.main), "started": started}
        write_note(self.folder / KEEPER, me | container)
        self._tell({"started": started})
        for (reading, writing), stream in zip(pipes, ("stdout", "stderr"), strict=True):
            os.close(writing)
            os.set_blocking(reading, False)
            self.poll.register(reading, select.POLLIN)
            self.streams[reading] = stream
        while self.status is None:
            self._turn(wake)
        self._clear_away()
        until = time.monotonic() + _DRAIN_SECONDS
        while self.streams and time.monotonic() < until:
            self._turn(wake)
        self.log.finish()
        oom = self.status != 0 and oom_kills(self.spec.get("memory_cgroup") or "") > 0
        code = os.waitstatus_to_exitcode(self.status)
        code = 128 - code if code < 0 else code
        self._leave(code, "OOMKilled" if oom else "Completed" if code == 0 else "Error")

    def _open_input(self) -> int:
        """What the container reads: a pipe that others can open, where it wants one."""
        if not self.spec.get("stdin"):
            return os.open(os.devnull, os.O_RDONLY)
        path = self.folder / STDIN
        os.mkfifo(path, 0o600)
        given = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.input = os.open(path, os.O_WRONLY)
        os.set_blocking(given, True)
        return given

    def _launch(self, given: int, out: int, err: int) -> int:
        if self.spec.get("runc"):
            return self._launch_runc(given, out, err)
        trouble, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            _become(self.spec, (given, out, err), tell)
        os.close(tell)
        with os.fdopen(trouble, "rb") as pipe:
            message = pipe.read()
        if message:
            os.waitpid(pid, 0)
            raise CannotRun(message.decode(errors="replace"))
        return pid

    def _launch_runc(self, given: int, out: int, err: int) -> int:
        """The container's first process becomes this process's child once `runc create` has ended."""
        runc = self.spec["runc"]
        _mount_root(runc.get("overlay"))
        made = self.folder / "pid"
        create = ["create", "--bundle", runc["bundle"], "--pid-file", str(made), runc["id"]]
        self._runc(create, (given, out, err))
        pid = int(made.read_text())
        try:
            self._runc(["start", runc["id"]])
        except CannotRun:
            os.kill(pid, signal.SIGKILL)
            raise
        return pid

    def _runc(self, arguments: list[str], streams: tuple[int, int, int] | None = None) -> None:
        runc = self.spec["runc"]
        path = self.folder / "runc.log"
        command = [runc["binary"], "--root", runc["root"], "--log", str(path), *arguments]
        nowhere = os.open(os.devnull, os.O_RDWR)
        ends = streams or (nowhere, nowhere, nowhere)
        actions = [(os.POSIX_SPAWN_DUP2, end, place) for place, end in enumerate(ends)]
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
        os.close(nowhere)
        if os.waitpid(pid, 0)[1] != 0:
            lines = path.read_text(errors="replace").splitlines() if path.exists() else []
            raise CannotRun(lines[-1][:2000] if lines else f"runc {arguments[0]} failed")

    def _turn(self, wake: int) -> None:
        """Wait for output, the end, or an order, and deal with it."""
        timeout = 1.0 if self.deadline is None else min(1.0, max(0.0, self.deadline - time.monotonic()))
        for fd, _ in self.poll.poll(timeout * 1000):
            if fd == wake:
                for number in os.read(wake, 4096):
                    if number == signal.SIGTERM:
                        self._asked_to_stop()
                    elif number == signal.SIGUSR1 and self.input is not None:
                        os.close(self.input)
                        self.input = None
            else:
                self._read(fd)
        self._reap()
        if self.status is None and self.deadline is not None and time.monotonic() >= self.deadline:
            kill_container(self.spec.get("cgroups") or [], os.getpid())
            self.deadline = time.monotonic() + 1.0

    def _read(self, fd: int) -> None:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return
        if data:
            self.log.take(self.streams[fd], data)
            return
        self.poll.unregister(fd)
        os.close(fd)
        del self.streams[fd]

    def _asked_to_stop(self) -> None:
        """Ask the container to end; asked again with less time, there is less time."""
        asked = json.loads((self.folder / STOP).read_bytes())["by"]
        if self.deadline is None and self.status is None and asked > time.monotonic():
            os.kill(self.main, signal.SIGTERM)
        self.deadline = asked if self.deadline is None else min(asked, self.deadline)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.main:
                self.status = status

    def _clear_away(self) -> None:
        """Nothing of a container outlives its first process."""
        until = time.monotonic() + _KILL_SECONDS
        while kill_container(self.spec.get("cgroups") or [], os.getpid()) and time.monotonic() < until:
            time.sleep(0.005)
            self._reap()

    def _leave(self, code: int, reason: str, message: str = "") -> None:
        """The note of the end, and the container's cgroups gone."""
        if self.spec.get("runc"):
            try:
                self._runc(["delete", "--force", self.spec["runc"]["id"]])
            except (OSError, CannotRun) as error:  # the agent tries again when it removes the container
                message = message or str(error)
        note = {"code": code, "reason": reason, "message": message, "finished": time.time()}
        write_note(self.folder / EXIT, note)
        remove_cgroups(self.spec.get("cgroups") or [])

    def _tell(self, first: dict[str, Any]) -> None:
        """The agent that started this keeper learns how it went, if it still lives."""
        try:
            os.write(1, json.dumps(first).encode() + b"\n")
        except BrokenPipeError:
            return
        finally:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, 1)
            os.close(nowhere)


class CannotRun(Exception):
    """The command could not be started."""


def _become(spec: dict[str, Any], streams: tuple[int, int, int], tell: int) -> NoReturn:
    """In the forked child: turn into the container's first process, or say why not."""
    step = "starting"
    try:
        _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        os.setsid()
        for target, source in enumerate(streams):
            os.dup2(source, target)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        step = "entering the container"
        for fd in range(3):  # who opens /dev/stdout opens a pipe, which is its owner's
            if spec.get("uid") is not None and stat.S_ISFIFO(os.fstat(fd).st_mode):
                os.fchown(fd, spec["uid"], spec.get("gid") or 0)
        enter(spec)
        step = f"exec {spec['argv'][0]!r}"
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent must hear of it and the child end
        message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        os.write(tell, f"{step}: {message}".encode())
    finally:
        os._exit(CANNOT_START)


def enter(spec: dict[str, Any]) -> None:
    """This process takes the container's cgroups, limits, user and folder."""
    for folder in spec.get("cgroups") or []:
        Path(folder, "cgroup.procs").write_text("0")
    for name, amount in (spec.get("rlimits") or {}).items():
        kind = getattr(resource, name)
        _, hard = resource.getrlimit(kind)
        bound = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
        resource.setrlimit(kind, (bound, bound))
    if spec.get("binds"):
        _bind_over(spec["binds"])
    if spec.get("uid"):
        _clear_way(spec)
    if spec.get("capabilities") is not None:
        kept = set(spec["capabilities"])
        for number in range(_LAST_CAPABILITY + 1):
            if number not in kept:
                _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
    if spec.get("no_new_privileges"):
        _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if spec.get("seccomp"):
        _filter_calls(bytes.fromhex(spec["seccomp"]))
    if spec.get("gid") is not None or spec.get("uid") is not None:
        os.setgroups(spec.get("groups") or [])
        os.setgid(spec.get("gid") or 0)
        os.setuid(spec.get("uid") or 0)
    os.umask(0o022)
    os.chdir(spec["cwd"])


def _bind_over(binds: list[tuple[str, str]]) -> None:
    """Volumes at paths that the machine has, too, for this process and what it starts alone."""
    apart = (
        _libc.unshare(_CLONE_NEWNS) == 0 and _libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None) == 0
    )
    for source, target in binds:
        flags = _MS_BIND | _MS_REC
        if not apart or _libc.mount(source.encode(), target.encode(), None, flags, None) != 0:
            number = ctypes.get_errno()
            message = f"{target} is a path of this machine and cannot be replaced: {os.strerror(number)}"
            raise OSError(number, message)


def _clear_way(spec: dict[str, Any]) -> None:
    """The container's user gets at its own folders, whatever lies on the way to them.

    They stand below folders of root's. Where one of those does not let that user through, it is replaced, for
    this process alone, by an empty one that holds the container's folders and no more.
    """
    shown = [Path(path) for path in spec.get("shown") or ()]
    gate = _gate(shown[0], spec) if shown else None
    if gate is None:
        return
    if _libc.unshare(_CLONE_NEWNS) != 0 or _libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None) != 0:
        raise _unreachable(shown[0], spec)
    hidden = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in shown if gate in path.parents]
    if _libc.mount(b"tmpfs", os.fsencode(gate), b"tmpfs", _MS_NOSUID | _MS_NODEV, _WAY.encode()) != 0:
        raise _unreachable(shown[0], spec)
    os.umask(0)
    for place, fd in hidden:
        folder = place if stat.S_ISDIR(os.fstat(fd).st_mode) else place.parent
        for step in (*reversed(folder.parents), folder):
            if gate in step.parents and not step.exists():
                step.mkdir(0o711)
        if folder is not place:
            place.touch(exist_ok=True)
        source = f"/proc/self/fd/{fd}".encode()
        if _libc.mount(source, os.fsencode(place), None, _MS_BIND | _MS_REC, None) != 0:
            raise _unreachable(place, spec)
        os.close(fd)


def _gate(place: Path, spec: dict[str, Any]) -> Path | None:
    """The first folder on the way to this one that lets the container's user not through."""
    groups = {spec.get("gid") or 0, *(spec.get("groups") or ())}
    for folder in reversed(place.parents):
        about = folder.stat()
        needed = 0o100 if about.st_uid == spec["uid"] else 0o010 if about.st_gid in groups else 0o001
        if not about.st_mode & needed:
            return folder
    return None


def _unreachable(place: Path, spec: dict[str, Any]) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"user {spec['uid']} does not get at {place}: {os.strerror(number)}")


def _filter_calls(program: bytes) -> None:
    """System calls go through this program of the kernel's from now on."""

    class Program(ctypes.Structure):
        _fields_ = (("steps", ctypes.c_ushort), ("first", ctypes.c_char_p))

    given = Program(len(program) // 8, program)
    if _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(given), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")


def _mount_root(overlay: dict[str, str] | None) -> None:
    """The container's root is mounted in a namespace of this process: it is gone when the last of it ends."""
    if not overlay:
        return
    for name in ("upper", "work", "root"):
        Path(overlay[name]).mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={overlay['lower']},upperdir={overlay['upper']},workdir={overlay['work']}"
    if (
        _libc.unshare(_CLONE_NEWNS) != 0
        or _libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None) != 0
        or _libc.mount(b"overlay", overlay["root"].encode(), b"overlay", 0, options.encode()) != 0
    ):
        raise CannotRun(f"mounting the container's root: {os.strerror(ctypes.get_errno())}")


def start_time(pid: int) -> int:
    """When a process started, in ticks since the boot: with its id it names a process for good; 0: gone."""
    fields = stat_fields(pid)
    return int(fields[STARTED_FIELD]) if fields else 0


STARTED_FIELD = 19
"""Of `stat_fields`."""


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; none where it is gone."""
    try:
        text = Path("/proc", str(pid), "stat").read_text(errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def parent_of(pid: int) -> int:
    """0 where it is gone."""
    fields = stat_fields(pid)
    return int(fields[1]) if fields else 0


def descendants(root: int) -> list[int]:
    """Children, their children, and so on; zombies are not counted."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if entry.isdigit():
            fields = stat_fields(int(entry))
            if fields and fields[0] != "Z":
                children.setdefault(int(fields[1]), []).append(int(entry))
    descendants: list[int] = []
    waiting = [root]
    while waiting:
        young = children.get(waiting.pop(), [])
        descendants += young
        waiting += young
    return descendants


def members(cgroups: list[str]) -> set[int]:
    """The processes in these cgroups."""
    members: set[int] = set()
    for folder in cgroups:
        try:
            members.update(int(line) for line in Path(folder, "cgroup.procs").read_text().split())
        except OSError:  # it is gone, and so are its processes
            continue
    return members


def kill_container(cgroups: list[str], keeper: int) -> int:
    """SIGKILL to all in the cgroups and below the keeper (0: there is none); how many there were."""
    for folder in cgroups:
        switch = Path(folder, "cgroup.kill")
        if switch.exists():
            switch.write_text("1")
    pids = members(cgroups) | (set(descendants(keeper)) if keeper else set())
    pids.discard(os.getpid())
    for number in (signal.SIGSTOP, signal.SIGKILL):  # who is stopped does not fork while the rest is killed
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
    return len(pids)


def oom_kills(memory_cgroup: str) -> int:
    """How often the kernel has killed something in this cgroup for want of memory."""
    for name in ("memory.events", "memory.oom_control"):
        try:
            lines = Path(memory_cgroup, name).read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            key, _, value = line.partition(" ")
            if key == "oom_kill":
                return int(value)
    return 0


def remove_cgroups(cgroups: list[str]) -> None:
    """Take these away once they are empty; the kernel needs a moment after the last process."""
    for folder in cgroups:
        for _ in range(100):
            try:
                os.rmdir(folder)  # noqa: PTH106
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.01)
            else:
                break


def write_note(path: Path, note: dict[str, Any]) -> None:
    """Whole or not at all, and for nobody else to read: there are secrets in it."""
    draft = path.with_name(path.name + ".draft")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:  # noqa: PTH123
        json.dump(note, file)
    draft.replace(path)


def _wake_on_signals() -> int:
    """A file descriptor that tells of SIGTERM, SIGCHLD and SIGUSR1 by their numbers."""
    reading, writing = os.pipe()
    for fd in (reading, writing):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    return reading


def _take_terminal() -> None:
    """The terminal on the streams is the one that controls this session: Ctrl-C and its size get through."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""How a command ends that could not be begun, as shells have it."""


def not_started(program: str, code: int) -> str:
    """The line that is told of it on its stderr, with every runtime."""
    why = "not found in the container" if code == NOT_FOUND else "cannot be executed in the container"
    return f"{program}: {why}\n"


def _execute(folder: Path, argv: list[str]) -> NoReturn:
    """Another command in a container that runs: enter it as its first process did."""
    spec = json.loads((folder / SPEC).read_bytes())
    code = NOT_FOUND
    try:
        if os.isatty(0):
            _take_terminal()
            spec["env"].setdefault("TERM", "xterm")
        enter(spec)
    except OSError as error:  # the container has just ended
        os.write(2, f"exec {argv[0]!r}: {error.strerror}\n".encode())
        os._exit(NOT_EXECUTABLE)
    try:
        os.execvpe(argv[0], argv, spec["env"])
    except OSError as error:
        code = NOT_FOUND if error.errno in (errno.ENOENT, errno.ENOTDIR) else NOT_EXECUTABLE
        os.write(2, not_started(argv[0], code).encode())
    finally:
        os._exit(code)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        _execute(Path(sys.argv[1]), sys.argv[2:])
    os.set_inheritable(3, False)  # the lock is the keeper's, never the container's
    os.chdir("/")
    ContainerShim(Path(sys.argv[1])).run()
