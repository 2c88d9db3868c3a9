"""Reads a whole text file, or says in one line why it is not one.

The first step of every reader in this package: missing files, folders, binary data and runaway lines are
refused here, before a parser can stumble over them.
"""

from __future__ import annotations

from pathlib import Path

from proreus.model.errors import InputError
from proreus.model.files import read_regular

LONGEST_LINE = 65_536
"""Characters; the longest real line among the supported traces has a few hundred."""


def read_text(path: Path) -> str:
    """The text of `path` without a byte-order mark; InputError when it is not a readable UTF-8 text file."""
    try:
        data = read_regular(path)
    except FileNotFoundError:
        raise InputError("no such file", file=path) from None
    except IsADirectoryError:
        raise InputError("this is a directory, a file is needed", file=path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path) from None
    # NUL first: it is the cheap and certain sign of a binary file, whatever its other bytes decode to.
    zero = data.find(b"\0")
    if zero >= 0:
        raise InputError(
            "not a text file (it holds a NUL byte)", file=path, line=data.count(b"\n", 0, zero) + 1
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("not a text file (invalid UTF-8)", file=path, line=line) from None
    if not text.strip():
        raise InputError("the file is empty", file=path)
    return text


def read_lines(path: Path) -> list[str]:
    """The lines of `path` without their ends; InputError also for a line beyond `LONGEST_LINE`."""
    lines = [line.removesuffix("\r") for line in read_text(path).split("\n")]
    for number, line in enumerate(lines, start=1):
        if len(line) > LONGEST_LINE:
            raise InputError(
                f"a line of {len(line)} characters (at most {LONGEST_LINE} are read)", file=path, line=number
            )
    return lines
