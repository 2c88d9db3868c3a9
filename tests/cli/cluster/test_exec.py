"""`proreus exec` against pods that are processes: streams as they come, a terminal, exit codes."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.runner import Proreus, assert_refused, command, environment
from tests.engine.api.exec.conftest import run_pod
from tests.engine.api.live import Live, live

_PATIENCE = 60.0


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A cluster with a pod `p`."""
    with live(agents=True, processes=tmp_path_factory.mktemp("exec") / "node") as opened:
        with opened.client() as client:
            run_pod(client, "p", ["sleep", "1000"])
        yield opened


def _start(door: Live, words: list[str], **streams: int) -> subprocess.Popen[bytes]:
    ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    argv = command("exec", "--server", door.url, *words)
    return subprocess.Popen(argv, env=environment(), start_new_session=True, **ends)  # type: ignore[call-overload, no-any-return]


def test_output_errors_and_the_exit_code(door: Live, tmp_path: Path) -> None:
    path = tmp_path / "told.json"
    words = ["p", "--json", str(path), "--", "sh", "-c", "echo out; echo err >&2; exit 9"]
    started = _start(door, words)
    assert started.communicate(timeout=_PATIENCE) == (b"out\n", b"err\n")
    assert started.returncode == 9
    assert json.loads(path.read_text()) == {"exitCode": 9, "stdout": "out\n", "stderr": "err\n"}


def test_input_is_answered_as_it_comes(door: Live) -> None:
    started = _start(door, ["-i", "p", "--", "sh", "-c", "while read w; do echo got $w; done"])
    assert started.stdin is not None and started.stdout is not None
    for word in (b"one", b"two"):
        started.stdin.write(word + b"\n")
        started.stdin.flush()
        assert started.stdout.readline() == b"got " + word + b"\n"
    out, err = started.communicate(timeout=_PATIENCE)
    assert (out, err, started.returncode) == (b"", b"", 0)


def test_a_terminal_is_lent_to_the_command(door: Live) -> None:
    ours, theirs = os.openpty()
    script = 'test -t 0 && echo terminal; read w; echo "<$w>"; exit 4'
    words = ["-i", "-t", "p", "--", "sh", "-c", script]
    started = _start(door, words, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        _read_until(ours, b"terminal")
        os.write(ours, b"typed\r")
        _read_until(ours, b"<typed>")
        assert started.wait(_PATIENCE) == 4
    finally:
        started.kill()
        started.wait()
        os.close(ours)


def _read_until(fd: int, word: bytes) -> None:
    text, end = b"", time.monotonic() + _PATIENCE
    while word not in text:
        ready, _, _ = select.select([fd], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"after {_PATIENCE:g} s it says {text!r}"
        text += os.read(fd, 4096)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-t", "p", "--", "sh"], "--tty"),
        (["-i", "-t", "p", "--", "sh"], "stdin to be a terminal"),
        (["nobody", "--", "sh"], 'pods "nobody" not found'),
        (["p", "-c", "other", "--", "sh"], "container other is not valid"),
    ],
)
def test_what_is_wrong_is_one_line(door: Live, proreus: Proreus, words: list[str], says: str) -> None:
    ended = proreus("exec", "--server", door.url, *words)
    assert_refused(ended, ended.code, says)
    assert ended.out == "" and ended.code in (1, 2)
