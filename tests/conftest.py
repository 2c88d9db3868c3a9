"""What every test may rely on, however the suite was started."""

from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck, settings

# The same examples every time and no clock: what fails here fails everywhere, busy machine or not.
settings.register_profile(
    "proreus",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("proreus")

pytest_plugins = ("tests.trace_fixtures",)


@pytest.fixture(scope="session", autouse=True)
def interrupts_are_heard() -> None:
    """A shell ignores SIGINT for what it starts in the background, and nohup does too; the tests of Ctrl-C
    need it. Processes that tests start are cured as well: exec resets a signal that is caught."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
