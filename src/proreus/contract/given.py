"""What `tune --from` names: files of one's own, or a scenario."""

from __future__ import annotations

from pathlib import Path

from proreus.model.errors import UsageError


def names_files(given: str, scenario: str, usual: str) -> bool:
    """Whether it is a path; otherwise it is a scenario, and --scenario has to be as usual."""
    path = Path(given)
    if path.exists() or path.suffix:
        return True
    if scenario != usual:
        raise UsageError(f"--from {given} is no file, so it is the scenario: leave out --scenario")
    return False
