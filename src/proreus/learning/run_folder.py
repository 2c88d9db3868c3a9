"""The folder of one training run: its settings, its journal, its checkpoints.

RUN/settings.json      what was asked for; a resumed run asks for the same, but may be longer
RUN/journal.jsonl      the start, then one line per update, appended and synced: what a resumed run replays or
                       continues
RUN/best/              the checkpoint with the best held-out score so far; the start, until one is better
RUN/last/              the latest checkpoint
RUN/improvement.json   how much better the best is than the start, once the run has come to its end
RUN/tensorboard/       event files, where TensorBoard is installed
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from proreus.learning.settings import current_names
from proreus.learning.tensorboard import ScalarWriter
from proreus.model.errors import InputError, UsageError, WorkError
from proreus.model.files import make_folder, read_object, write_atomically
from proreus.policies.checkpoint import Card, Checkpoint, save_checkpoint

SETTINGS, JOURNAL, BOARD = "settings.json", "journal.jsonl", "tensorboard"
IMPROVEMENT = "improvement.json"


S = TypeVar("S")


class WrittenScenario(Protocol):
    """What a run learns from; it can be written down."""

    @property
    def name(self) -> str:
        """The name in tables and reports."""
        ...

    def to_json(self) -> dict[str, Any]:
        """As settings keep it."""
        ...


@dataclass(frozen=True)
class NamedScenario:
    """One whose name says all, beside the config."""

    name: str

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name}


@dataclass(frozen=True)
class RunIdentity:
    """What a run is: goes into its settings and onto the cards of its checkpoints."""

    world: str
    algorithm: str
    kind: str
    """Of the policy."""
    encoding: str
    """What the policy sees."""
    scenarios: tuple[WrittenScenario, ...]
    """What it learns from."""
    config: Mapping[str, Any]
    seed: int
    gain: str
    """What its held-out scores are, for the cards."""
    length: str
    """The setting that says how long it is."""

    def settings(self) -> dict[str, Any]:
        """For `settings.json`: all that the result depends on."""
        return {
            "world": self.world,
            "algorithm": self.algorithm,
            "kind": self.kind,
            "scenarios": [scenario.to_json() for scenario in self.scenarios],
            "config": dict(self.config),
            "seed": self.seed,
        }

    def card(self, scores: Mapping[str, float], steps: int, seconds: float) -> Card:
        """For a checkpoint after so many steps (or generations); `scores` say what was measured."""
        return Card(
            world=self.world,
            kind=self.kind,
            encoding=self.encoding,
            algorithm=self.algorithm,
            config=self.config,
            seed=self.seed,
            commit=code_version(),
            trained_on=tuple(scenario.name for scenario in self.scenarios),
            scores=scores,
            steps=steps,
            created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            seconds=round(seconds, 1),
        )


def read_settings(path: Path, world: str = "") -> dict[str, Any]:
    """What a run was asked for: a resumed run asks for the same. One of another world is refused."""
    file = path / SETTINGS
    settings = read_object(file, so="cannot be resumed")
    for name, kind in (("algorithm", str), ("scenarios", list), ("config", dict)):
        if not isinstance(settings.get(name), kind):
            raise InputError("cannot be resumed: missing or of the wrong kind", file=file, field=name)
    if world and settings.get("world", "pods") != world:
        raise InputError(
            f"cannot be resumed: a run of the world {settings.get('world')!r}, not of {world!r}",
            file=file,
            field="world",
        )
    return settings


def scenarios_of(settings: Mapping[str, Any], path: Path, read: Callable[[Any], S]) -> tuple[S, ...]:
    """The scenarios of the run at `path`; `read` is the world's way back from JSON, with a ValueError."""
    try:
        return tuple(read(entry) for entry in settings["scenarios"])
    except ValueError as error:
        raise InputError(f"cannot be resumed: {error}", file=path / SETTINGS, field="scenarios") from error


class RunFolder:
    """Reads and writes the files of one run."""

    def __init__(self, path: Path, identity: RunIdentity, *, resume: bool) -> None:
        self.path, settings = path, identity.settings()
        self._saved_something = resume
        if resume:
            self.past = self._resume(settings, identity.length)
        else:
            if (path / SETTINGS).exists():
                raise UsageError(
                    f"{path} holds a run already: resume it with --resume {path}, or choose another"
                )
            make_folder(path)
            _write_settings(path, settings)
            self.past = []
        with _writing(path / JOURNAL):
            self._journal = (path / JOURNAL).open("a", encoding="utf-8")
        with _writing(path / BOARD):
            self._board = ScalarWriter(path / BOARD)

    def _resume(self, settings: Mapping[str, Any], length: str) -> list[dict[str, Any]]:
        """The journal so far; a last line that was cut off by a crash is dropped. Another length is noted."""
        before, now = read_settings(self.path), json.loads(json.dumps(settings))
        if not _same_but(length, before, now):
            raise UsageError(
                f"{self.path / SETTINGS} asks for something else: a resumed run keeps its settings"
            )
        entries = read_journal(self.path)
        self._rewrite_journal(entries)
        was, will_be = before["config"].get(length), now["config"].get(length)
        if was != will_be:
            former = [*before.get("former_lengths", []), was]
            _write_settings(self.path, {**now, "former_lengths": former})
        return entries

    def _rewrite_journal(self, entries: Sequence[Mapping[str, Any]]) -> None:
        content = "".join(json.dumps(entry) + "\n" for entry in entries)
        write_atomically(self.path / JOURNAL, content.encode())

    def begin(self, entry: Mapping[str, Any], scalars: Mapping[str, float]) -> None:
        """The start, as the first line of the journal: of runs that did not judge it, too."""
        if not self.past:
            self.record(entry, scalars, 0)
        else:
            with _writing(self.path / JOURNAL):
                self._journal.close()
                self._rewrite_journal([entry, *self.past])
                self._journal = (self.path / JOURNAL).open("a", encoding="utf-8")
        self.past = [dict(entry), *self.past]

    def keep_improvement(self, improvement: Mapping[str, Any]) -> None:
        """Write what a run that has come to its end says of its best checkpoint."""
        write_atomically(self.path / IMPROVEMENT, (json.dumps(improvement, indent=2) + "\n").encode())

    def record(self, entry: Mapping[str, Any], scalars: Mapping[str, float], step: int) -> None:
        """Append one line to the journal, durably, and its scalars to TensorBoard."""
        (self.path / IMPROVEMENT).unlink(missing_ok=True)  # it was said before this was learned
        with _writing(self.path / JOURNAL):
            self._journal.write(json.dumps(entry) + "\n")
            self._journal.flush()
            os.fsync(self._journal.fileno())
        self._saved_something = True
        with _writing(self.path / BOARD):
            self._board.add(scalars, step)

    def save(self, name: str, checkpoint: Checkpoint) -> None:
        """Write a checkpoint under the run."""
        save_checkpoint(self.path / name, checkpoint)
        self._saved_something = True

    def close(self) -> None:
        """Flush what is open. A run that has saved nothing leaves nothing behind: its name is free again."""
        try:
            with _writing(self.path / JOURNAL):
                self._journal.close()
        finally:
            with _writing(self.path / BOARD):
                self._board.close()
            if not self._saved_something:
                self._withdraw()

    def _withdraw(self) -> None:
        for folder in (self.path / BOARD, self.path):
            for file in [*folder.glob("events.*"), folder / SETTINGS, folder / JOURNAL]:
                file.unlink(missing_ok=True)
            with suppress(OSError):  # somebody else's files are in it, or it is not there
                folder.rmdir()


def _write_settings(path: Path, settings: Mapping[str, Any]) -> None:
    write_atomically(path / SETTINGS, (json.dumps(settings, indent=2, sort_keys=True) + "\n").encode())


def _same_but(length: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether two settings differ in nothing but the length: not in where data lies, for folders may move,
    nor by names that settings had, nor by settings that there were not then."""
    then, today = current_names(before["config"]), current_names(now["config"])
    return (
        all(before.get(name) == now.get(name) for name in ("algorithm", "seed"))
        and all(name == length or today.get(name) == value for name, value in then.items())
        and _named(before) == _named(now)
    )


def _named(settings: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    return [(entry.get("name"), entry.get("options")) for entry in settings["scenarios"]]


def read_journal(path: Path) -> list[dict[str, Any]]:
    """The lines of a run's journal; a last line that a crash cut off is left out."""
    file = path / JOURNAL
    try:
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=file) from error
    except ValueError as error:
        raise InputError(f"not a journal: {error}", file=file) from error


def done_of(journal: Sequence[Mapping[str, Any]]) -> int:
    """Generations or steps that a journal tells of."""
    if not journal:
        return 0
    return int(journal[-1]["generation"] + 1 if "generation" in journal[-1] else journal[-1]["steps"])


def read_improvement(path: Path) -> dict[str, Any] | None:
    """What a run says of its best checkpoint; None where it has not come to its end."""
    file = path / IMPROVEMENT
    return read_object(file, so="cannot be read") if file.exists() else None


def mean_gain(by_scenario: Mapping[str, float]) -> float:
    """What checkpoints are ranked by: the mean held-out gain over the scenarios."""
    return float(np.mean(list(by_scenario.values())))


def judgements(journal: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """The held-out gains in a journal, by scenario, in the order they were found."""
    return [entry["validation"] for entry in journal if entry["validation"]]


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """A failure to write, such as a full disk, names the file."""
    try:
        yield
    except OSError as error:
        raise WorkError(f"{path}: cannot be written: {error.strerror}") from error


def code_version() -> str:
    """The commit of the source tree, "" where it is not one."""
    here = Path(__file__).resolve().parent
    try:
        completed = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"], cwd=here, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return completed.stdout.strip()
