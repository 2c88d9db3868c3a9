"""How a flag's value is called in the help of the command line.

Flags of worlds are plain dataclasses that whoever plays from Python reads too, and training runs where there
is no command line: so its library is asked for when help is written, and not when a world is imported.
"""

from __future__ import annotations


def metavar(name: str, *, flag: str = "") -> object:
    """To annotate a field with: `data: Annotated[Path | None, metavar("DIR")] = None`.

    flag: what it is called where that is no name in Python, as `from`.
    """
    import tyro

    return tyro.conf.arg(metavar=name, name=flag or None)
