"""The durable logs at a place: those of a service's models in a folder, and all that are in a store."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from proreus.log.files import FileReader, prune
from proreus.log.folder import LogFolder
from proreus.log.protocol import LogReader, Part
from proreus.log.segments import segments
from proreus.model.errors import InputError, UsageError, WorkError, needs_extra
from proreus.model.experience import Experience
from proreus.serving.model_version import CURRENT
from proreus.serving.online.experience_log import records_of
from proreus.serving.online.progress import read_progress

_log = logging.getLogger(__name__)
EXPERIENCE_FOLDER = "experience"


@dataclass(frozen=True)
class RecordedLog(ABC):
    """One log, and what its records say."""

    name: str

    @abstractmethod
    def reader(self, since: int = 0) -> LogReader:
        """Reads its parts."""

    @abstractmethod
    def records(self, part: Part) -> Iterator[dict[str, Any]]:
        """What the records of a part say, as JSON has it; ValueError where they are none."""

    @abstractmethod
    def learned(self) -> int:
        """The number below which everything was learned from; UsageError where that cannot be known here."""

    @abstractmethod
    def prune(self, before: int) -> None:
        """Drop what holds no record from that number on."""


@dataclass(frozen=True)
class ExperienceInFiles(RecordedLog):
    """What one process of a service logged."""

    experience: Path
    log: str

    def reader(self, since: int = 0) -> LogReader:
        """Reads its parts."""
        return FileReader(self.experience / self.log, since)

    def records(self, part: Part) -> Iterator[dict[str, Any]]:
        """Steps, as they were reported and completed."""
        return _experiences(part)

    def learned(self) -> int:
        """The learner's place stands beside the log."""
        return read_progress(self.experience).of(self.log).next

    def prune(self, before: int) -> None:
        """Whole files; the last one stays."""
        prune(self.experience / self.log, before)


@dataclass(frozen=True)
class ExperienceInStore(RecordedLog):
    """What all processes of a service logged in a store."""

    address: str
    root: str

    def reader(self, since: int = 0) -> LogReader:
        """Reads its parts."""
        return _store_reader(self.address, self.root, since)

    def records(self, part: Part) -> Iterator[dict[str, Any]]:
        """Steps, as they were reported and completed."""
        return _experiences(part)

    def learned(self) -> int:
        """The learner's place stands elsewhere."""
        raise UsageError("say --before NUMBER: how far learning has come stands in the model's folder")

    def prune(self, before: int) -> None:
        """Parts of the log, others may write meanwhile."""
        from proreus.engine.store.log.places import prune_log

        prune_log(self.address, self.root, before)


@dataclass(frozen=True)
class TraceInStore(RecordedLog):
    """What became of the pods of a cluster."""

    address: str
    root: str

    def reader(self, since: int = 0) -> LogReader:
        """Reads its parts."""
        return _store_reader(self.address, self.root, since)

    def records(self, part: Part) -> Iterator[dict[str, Any]]:
        """A segment: pods, nodes, and the specs of those pods."""
        import msgspec

        from proreus.engine.trace.segments import decode

        yield {"number": part.number, **msgspec.to_builtins(decode(part.payload))}

    def learned(self) -> int:
        """Of no use here: see `prune`."""
        return 0

    def prune(self, before: int) -> None:
        """Refused: what is still true of living pods and nodes would go with it."""
        raise UsageError(
            "a cluster thins out its trace by itself, and says again what is still true of living pods; to"
            " begin it only later, use --since with what reads it"
        )


def logs_at(place: str) -> list[RecordedLog]:
    """All logs there; an InputError where there is none."""
    folder = Path(place).expanduser()
    recorded_logs = list(_in_folder(folder)) if folder.is_dir() else []
    if not recorded_logs:
        recorded_logs = list(_in_store(place))
    if not recorded_logs:
        raise InputError("nothing is recorded here", file=place)
    return recorded_logs


def _in_folder(folder: Path) -> Iterator[RecordedLog]:
    if segments(folder):
        yield from _of_model("", folder)
        return
    for experience in sorted(folder.glob(f"*/{EXPERIENCE_FOLDER}")):
        yield from _of_model(f"{experience.parent.name}/", experience)


def _of_service(folder: Path) -> str:
    """Where experience may be instead, of a folder of models that has none; "" where there are no models."""
    experiences = [folder, *sorted(folder.glob(f"*/{EXPERIENCE_FOLDER}"))]
    logs = {log for experience in experiences for log in read_progress(experience).positions}
    # Logs in files have names without a store; the learner has noted those of a store with their model.
    if stores := sorted({log.rpartition("#")[0] for log in logs if "#" in log}):
        return f"no experience here: `serve` was told a --log, so name that: {', '.join(stores)}"
    if any(folder.glob(f"*/{CURRENT}")):
        return "no experience here: nothing was reported yet, or `serve` was told a --log; then name that"
    return ""


def _of_model(before: str, experience: Path) -> Iterator[RecordedLog]:
    for log in LogFolder(experience).names():
        if segments(experience / log):
            name = "/".join(part for part in (before + EXPERIENCE_FOLDER, log) if part)
            yield ExperienceInFiles(name, experience, log)


def _in_store(place: str) -> Iterator[RecordedLog]:
    try:
        from proreus.engine.store.log.places import logs_in
        from proreus.engine.store.protocol import StoreError
        from proreus.engine.trace.reader import store_address
        from proreus.engine.trace.segments import ROOT
    except ImportError as error:
        raise UsageError(f"a store {needs_extra('engine')} ({error})") from error
    try:
        address = store_address(place)
    except InputError:
        if message := _of_service(Path(place).expanduser()):
            raise InputError(message, file=place) from None
        raise
    try:
        roots = logs_in(address, ROOT)
    except StoreError as error:
        raise InputError(str(error)) from error
    for name, root in roots.items():
        kind = TraceInStore if root == ROOT else ExperienceInStore
        yield kind(name, address, root)


def _store_reader(address: str, root: str, since: int) -> LogReader:
    from proreus.engine.store.log.blocking import StoreReader

    return StoreReader(address, root, since)


def _experiences(part: Part) -> Iterator[dict[str, Any]]:
    for number, record in enumerate(records_of(part), part.number):
        yield {"number": number, **_experience(record)}


def _experience(record: Experience) -> dict[str, Any]:
    return {
        "report": record.report,
        "reporter": f"{record.reporter:016x}",
        "model_version": record.model_version,
        "actions_dim": record.actions_dim,
        "states": record.states.tolist(),
        "actions": record.actions.tolist(),
        "rewards": record.rewards.tolist(),
        "dones": record.dones.tolist(),
        "log_probs": [None if np.isnan(value) else float(value) for value in record.log_probs],
        "greedy": record.greedy.tolist(),
        "masks": None if record.masks is None else record.masks.tolist(),
    }


@dataclass(frozen=True)
class LogContents:
    """What a log has."""

    parts: int
    records: int
    first: int | None
    """The number of the first record; None: there is none."""
    last: int | None
    bytes: int
    damaged: int
    """Parts that are none, and parts that say nothing sensible where that was looked at."""
    lost: int
    """Records that were in them, as far as that can be known."""


def contents(log: RecordedLog, *, thoroughly: bool) -> LogContents:
    """Read a log through; thoroughly: what its records say, too."""
    reader = log.reader()
    parts = records = size = damaged = lost = 0
    first = last = None
    try:
        for part in reader.poll():
            parts, size = parts + 1, size + len(part.payload)
            first, last = part.number if first is None else first, part.end - 1
            if thoroughly and not _sensible(log, part):
                damaged, lost = damaged + 1, lost + part.records
            else:
                records += part.records
        return LogContents(parts, records, first, last, size, damaged + reader.damaged, lost + reader.lost)
    finally:
        reader.close()


def _sensible(log: RecordedLog, part: Part) -> bool:
    try:
        for _ in log.records(part):
            pass
    except ValueError:
        return False
    return True


def chosen(logs: list[RecordedLog], name: str) -> RecordedLog:
    """The log of that name; without a name the only one."""
    names = ", ".join(log.name for log in logs)
    if not name and len(logs) > 1:
        raise UsageError(f"which log? --log with one of {names}")
    for log in logs:
        if name in ("", log.name):
            return log
    raise UsageError(f"there is no log {name!r} (there are: {names})")


def exported(log: RecordedLog, since: int) -> Iterator[dict[str, Any]]:
    """Every record from that number on; a WorkError where the log cannot be read."""
    reader = log.reader(since)
    try:
        for part in reader.poll():
            try:
                records = list(log.records(part))
            except ValueError as error:
                _log.warning("%s: record %d is left out: %s", log.name, part.number, error)
                continue
            for record in records:
                if record["number"] >= since:
                    yield {"log": log.name, **record}
    except OSError as error:
        raise WorkError(f"{log.name}: {error.strerror}") from error
    finally:
        reader.close()
