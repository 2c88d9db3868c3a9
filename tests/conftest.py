"""What every test may rely on, however the suite was started."""

from __future__ import annotations

import signal

import pytest

pytest_plugins = ("tests.trace_fixtures",)


@pytest.fixture(scope="session", autouse=True)
def interrupts_are_heard() -> None:
    """A shell ignores SIGINT for what it starts in the background, and nohup does too; the tests of Ctrl-C
    need it. Processes that tests start are cured as well: exec resets a signal that is caught."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
