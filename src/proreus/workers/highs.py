"""HiGHS, which comes with the extra `solve`: every world that solves programs makes its solver here."""

from __future__ import annotations

import math
from typing import Any

from proreus.model.errors import UsageError, WorkError, needs_extra

_THREADS = 2  # one number for the whole process: HiGHS refuses to run with another one later


def highs_module() -> Any | None:
    """The module, or None where the extra is not installed."""
    try:
        import highspy
    except ImportError:
        return None
    return highspy


def needed_highs(what: str = "the exact solver") -> Any:
    """The module, or one line that says what to install for what."""
    highs = highs_module()
    if highs is None:
        raise UsageError(f"{what} {needs_extra('solve')}")
    return highs


def new_solver(highs: Any, seconds: float = math.inf) -> Any:
    """A silent solver that stops after so many seconds."""
    solver = highs.Highs()
    for option, value in (
        ("output_flag", False),
        ("time_limit", max(float(seconds), 0.0)),
        ("threads", _THREADS),
    ):
        solver.setOptionValue(option, value)
    return solver


def run_solver(highs: Any, solver: Any) -> None:
    """Solve; a WorkError where HiGHS would not even begin."""
    if solver.run() == highs.HighsStatus.kError:
        raise WorkError("the solver refuses to run on this model")
