"""Ctrl-C while a policy from elsewhere hangs: the first one ends the command, in one line."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.runner import command, environment

MINE = """
import re
from pathlib import Path
class Spins:
    def decide(self, observation):
        Path("asked").touch()
        while True: pass
class Catches:
    def decide(self, observation):
        Path("asked").touch()
        while True:
            try:
                while True: pass
            except BaseException:
                pass
class HoldsTheLock:
    def decide(self, observation):
        Path("asked").touch()
        re.match(r"(a+)+$", "a" * 60 + "b")
"""
SIMULATE = ("simulate", "pods", "--scenario", "small", "--policy")
COMPARE = ("compare", "pods", "--scenario", "small", "--seeds", "2", "--out", "out", "--policies")


@pytest.mark.parametrize(
    ("words", "policy"),
    [
        (SIMULATE, "Spins"),
        (SIMULATE, "Catches"),
        (SIMULATE, "HoldsTheLock"),
        (COMPARE, "kube,mine.py:Catches"),
        (COMPARE, "kube,mine.py:Spins"),
    ],
)
def test_the_first_ctrl_c_ends_it_in_one_line(words: tuple[str, ...], policy: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    name = policy if ":" in policy else f"mine.py:{policy}"
    process = subprocess.Popen(
        command(*words, name, "--quiet"),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        until = time.monotonic() + 180.0
        while not (tmp_path / "asked").exists() and process.poll() is None:
            assert time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60.0)
        assert process.returncode == 130, said
        assert said.startswith(b"proreus: interrupted") and said.count(b"\n") == 1, said
    finally:
        process.kill()
        process.communicate()
