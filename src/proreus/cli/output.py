"""Where the results of a verb go: tables to the terminal, JSON to a file or to stdout, nothing when quiet."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console

from proreus.model.files import check_writable, write_atomically

LogLevel = Literal["debug", "info", "warning", "error"]
_PIPE_WIDTH = 160
_STDOUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


@dataclass(frozen=True)
class Output:
    """Where results and the log go."""

    json: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Also write the result as JSON; -: to stdout, and what is said besides to stderr."""
    quiet: bool = False
    """Say nothing but errors; files are written all the same."""
    log_level: LogLevel = "warning"
    """How much to log, to stderr."""
    log_json: bool = False
    """Log one JSON object a line."""

    @property
    def json_to_stdout(self) -> bool:
        """Whether stdout belongs to the JSON alone."""
        return self.json is not None and str(self.json) in _STDOUT


def new_console(output: Output) -> Console:
    """Where results are printed: as wide as the terminal, and wide enough for tables in a pipe or a file."""
    stderr = output.json_to_stdout
    # No markup: paths and names are printed as they are, brackets included.
    options: dict[str, Any] = {"stderr": stderr, "quiet": output.quiet, "emoji": False, "markup": False}
    console = Console(**options)
    if console.is_terminal:
        return console
    columns = os.environ.get("COLUMNS", "")
    return Console(**options, width=int(columns) if columns.isdecimal() and int(columns) else _PIPE_WIDTH)


def check_json(output: Output) -> None:
    """Say before the work that the JSON could not be written."""
    if output.json is not None and not output.json_to_stdout:
        check_writable(output.json)


def write_json(output: Output, content: Any) -> None:
    """Write the content as JSON, where that was asked for."""
    if output.json is not None:
        write_json_bytes(output, (json.dumps(content, indent=2) + "\n").encode())


def write_json_bytes(output: Output, content: bytes) -> None:
    """The same of a result that is JSON already."""
    if output.json_to_stdout:
        sys.stdout.write(content.decode())
        sys.stdout.flush()
    elif output.json is not None:
        write_atomically(output.json, content)


@contextmanager
def waiting(console: Console, text: str) -> Iterator[Callable[[str], None]]:
    """A spinner with a text that may be changed; in a pipe or a file, nothing."""
    if not console.is_terminal or console.quiet:
        yield lambda text: None
        return
    with console.status(text) as status:
        yield lambda text: status.update(text)
