"""What training shows on a terminal, and what it says when it stops."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)

from proreus.learning.run_folder import SETTINGS
from proreus.model.errors import WorkError
from proreus.workers.processes import loss_in_words

Show = Callable[[int, int, str], None]
"""Hears how much is done, of how much, and how it goes."""


@contextmanager
def shown(console: Console, what: str) -> Iterator[Show]:
    """A progress bar over the generations or updates of a run."""
    bar = Progress(
        SpinnerColumn(),
        TextColumn(what),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("compiling kernels", total=None)
        yield lambda done, total, text: bar.update(task, completed=done, total=total, description=text)


@contextmanager
def interrupt_noted() -> Iterator[threading.Event]:
    """Ctrl-C sets the event, so that a learner stops between two updates; a second one ends it at once."""
    event = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: object) -> None:
        event.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def kept_work_named(folder: Path) -> Iterator[None]:
    """Whatever ends the run says what is left of it and how to go on."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        # Without words it is the second Ctrl-C, which did not wait for the update to end.
        words = str(interrupt) or _and_kept("interrupted at once", folder)
        raise KeyboardInterrupt(words) from None
    except BrokenExecutor as error:
        raise WorkError(_and_kept(loss_in_words(error, "in training"), folder)) from error
    except WorkError as error:
        raise WorkError(_and_kept(str(error), folder)) from error


def interrupted_and_saved(folder: Path) -> KeyboardInterrupt:
    """For Ctrl-C that lost nothing."""
    if not (folder / SETTINGS).exists():
        return KeyboardInterrupt("interrupted before there was anything to save")
    return KeyboardInterrupt(f"interrupted and saved: go on with --resume {folder}")


def _and_kept(what: str, folder: Path) -> str:
    if not (folder / SETTINGS).exists():
        return f"{what}; there was nothing to save yet"
    return f"{what}; what was saved is kept: go on with --resume {folder}"
