"""A service that is told to end while it loads."""

from __future__ import annotations

import os
import signal

import pytest

from proreus.cli.serve import told_to_end


class Dying:
    """Meets the signal where nothing can be raised."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


def test_before_it_has_loaded_it_ends_at_once() -> None:
    with pytest.raises(SystemExit) as ended, told_to_end():
        os.kill(os.getpid(), signal.SIGTERM)
    assert ended.value.code == 0


def test_in_a_destructor_nothing_is_raised_and_lost(capfd: pytest.CaptureFixture[str]) -> None:
    with told_to_end() as ending:
        dying = Dying()
        del dying
        assert ending.is_set()
    assert "Traceback" not in capfd.readouterr().err
