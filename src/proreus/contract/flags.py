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


# How a flag's value is called in the help of the command line.
#
# Flags of worlds are plain dataclasses that whoever plays from Python reads too, and training runs where
# there is no command line: so its library is asked for when help is written, and not when a world is
# imported.


def metavar(name: str, *, flag: str = "") -> object:
    """To annotate a field with: `data: Annotated[Path | None, metavar("DIR")] = None`.

    flag: what it is called where that is no name in Python, as `from`.
    """
    import tyro

    return tyro.conf.arg(metavar=name, name=flag or None)
