"""A service that is told to end while it loads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from proreus.cli.signals import told_to_end
from tests.cli.runner import environment

_TOLD = """
import ctypes, os, signal, sys
from proreus.cli.signals import told_to_end

def tell(*_):
    os.kill(os.getpid(), signal.SIGTERM)
    return 0

class Dying:
    __del__ = tell

with told_to_end() as ending:
    {loading}
    print("it went on")
"""


@pytest.mark.parametrize(
    "loading",
    ["tell()", "Dying()", "ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(tell)(1)"],
    ids=["plain", "destructor", "callback"],
)
def test_before_it_has_loaded_it_ends_at_once_wherever_it_is(loading: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _TOLD.format(loading=loading)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_once_it_has_loaded_it_is_told() -> None:
    with told_to_end() as ending:
        ending.loaded()
        os.kill(os.getpid(), signal.SIGTERM)
        assert ending.is_set()
