"""How a controller plays a run: interval by interval; everything between two decisions is one kernel."""

from __future__ import annotations

from proreus.contract.play import step_by_step as play

__all__ = ["play"]
