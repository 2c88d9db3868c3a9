"""What every test may rely on, however the suite was started."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

from tests import nightly, parts

# The same examples every time and no clock: what fails here fails everywhere, busy machine or not.
settings.register_profile(
    "proreus",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("proreus")

# What was fetched on this machine is nobody's concern: data comes from PROREUS_DATA, or there is none.
os.environ["XDG_DATA_HOME"] = str(Path(__file__).parent / "no-such-folder")

_HALVES = ("placement", "others")
_Report = TypeVar("_Report", pytest.TestReport, pytest.CollectReport)
pytest_plugins = ("tests.inline_pool", "tests.trace_fixtures")


def pytest_configure(config: pytest.Config) -> None:
    """A parallel run begins with kernels that are compiled: see `tests.warming`."""
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        root = Path(__file__).parents[1]
        halves = [
            subprocess.Popen([sys.executable, "-m", "tests.warming", half], cwd=root) for half in _HALVES
        ]
        if any(half.wait() for half in halves):
            raise pytest.UsageError("the kernels could not be compiled")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What tests are made of stays: nobody looks for garbage among it, neither while it is read nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is long by nature waits for `make nightly`."""
    for item in items:
        if nightly.is_nightly(item.nodeid):
            item.add_marker(pytest.mark.nightly)


@pytest.fixture(scope="session", autouse=True)
def interrupts_are_heard() -> None:
    """A shell ignores SIGINT for what it starts in the background, and nohup does too; the tests of Ctrl-C
    need it. Processes that tests start are cured as well: exec resets a signal that is caught."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def sb3_logs_here(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Stable-Baselines3 makes a folder for its logs at every start; pytest tidies these up."""
    os.environ["SB3_LOGDIR"] = str(tmp_path_factory.mktemp("sb3"))


def _kept_promise(report: _Report) -> _Report:
    """Where CI promises every part, a test that misses one has failed."""
    if parts.everything_is_promised() and report.skipped and not hasattr(report, "wasxfail"):
        reason = parts.reason_of(report.longrepr)
        if not parts.may_be_left_out(reason):
            report.outcome = "failed"
            report.longrepr = f"skipped, where every part is promised (tests/parts.py): {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _kept_promise((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _kept_promise((yield))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line at the end: what this machine could not test."""
    skipped = terminalreporter.stats.get("skipped", [])
    line = parts.left_out(Counter(parts.reason_of(report.longrepr) for report in skipped))
    if line:
        terminalreporter.write_line(line, yellow=True)
