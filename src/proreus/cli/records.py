"""`proreus records list | verify | export | prune PLACE`: the durable logs of services and clusters."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.table import Table

from proreus.cli.arguments import parse, prepare
from proreus.cli.log_places import LogContents, RecordedLog, chosen, contents, exported, logs_at
from proreus.cli.output import Output, new_console, write_json
from proreus.model.errors import UsageError, unknown_name
from proreus.model.files import check_writable, open_together

ACTIONS = ("list", "verify", "export", "prune")
_EXAMPLE = "Example: proreus records list runs/models (and see proreus records verify|export|prune --help)"
_Place = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PLACE")]


@dataclass(frozen=True)
class LookArguments:
    """Flags of `proreus records list` and `verify`."""

    place: _Place = ""
    """A store (sqlite:PATH, etcd://HOST:PORT), the folder of a cluster, or the --store of a service."""
    common: Output = field(default_factory=Output)


@dataclass(frozen=True)
class ExportArguments:
    """Flags of `proreus records export`."""

    place: _Place = ""
    """A store (sqlite:PATH, etcd://HOST:PORT), the folder of a cluster, or the --store of a service."""
    log: str = ""
    """Which log, as `list` calls it; without it all of them."""
    since: int = 0
    """The number of the first record."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Where to write, one JSON object a line; without it to stdout."""
    common: Output = field(default_factory=Output)


@dataclass(frozen=True)
class PruneArguments:
    """Flags of `proreus records prune`."""

    place: _Place = ""
    """A store (sqlite:PATH, etcd://HOST:PORT), or the --store of a service."""
    log: str = ""
    """Which log, as `list` calls it; may be left out where there is one only."""
    before: int | None = None
    """Drop the records before this number, learned from or not; without it those that were learned from."""
    common: Output = field(default_factory=Output)

    def __post_init__(self) -> None:
        if self.before is not None and self.before < 0:
            raise UsageError(f"--before {self.before} is negative")


def run(words: Sequence[str]) -> int:
    """Look at logs, write them out, or make them smaller."""
    if not words or words[0].startswith("-"):
        parse(LookArguments, "proreus records list", words, _EXAMPLE)
        raise UsageError(f"say what to do with the records: {', '.join(ACTIONS)}")
    action, *rest = words
    match action:
        case "list" | "verify":
            arguments = parse(LookArguments, f"proreus records {action}", rest, _EXAMPLE)
            return _look(arguments, thoroughly=action == "verify")
        case "export":
            example = "Example: proreus records export runs/models --out experience.jsonl"
            return _export(parse(ExportArguments, "proreus records export", rest, example))
        case "prune":
            example = "Example: proreus records prune sqlite:log.db --before 5000"
            return _prune(parse(PruneArguments, "proreus records prune", rest, example))
        case _:
            raise unknown_name("action", action, ACTIONS)


def _look(arguments: LookArguments, *, thoroughly: bool) -> int:
    prepare(arguments.common)
    by_log = {log.name: contents(log, thoroughly=thoroughly) for log in _logs(arguments.place)}
    new_console(arguments.common).print(_table(by_log))
    write_json(
        arguments.common,
        {"logs": [{"name": name, **asdict(log_contents)} for name, log_contents in by_log.items()]},
    )
    return int(thoroughly and any(log_contents.damaged for log_contents in by_log.values()))


def _export(arguments: ExportArguments) -> int:
    prepare(arguments.common)
    logs = _logs(arguments.place)
    picked = [chosen(logs, arguments.log)] if arguments.log else logs
    if arguments.out is None:
        if arguments.common.json_to_stdout:
            raise UsageError("stdout cannot have both the records and --json -: name a file with --out")
        count = sum(1 for line in _lines(picked, arguments.since) if sys.stdout.write(line.decode()))
    else:
        check_writable(arguments.out)
        with open_together([arguments.out]) as (file,):
            count = sum(1 for line in _lines(picked, arguments.since) if file.write(line))
        new_console(arguments.common).print(f"{count} records in {arguments.out}", highlight=False)
    write_json(arguments.common, {"records": count})
    return 0


def _prune(arguments: PruneArguments) -> int:
    prepare(arguments.common)
    log = chosen(_logs(arguments.place), arguments.log)
    before = contents(log, thoroughly=False)
    number = log.learned() if arguments.before is None else arguments.before
    log.prune(number)
    after = contents(log, thoroughly=False)
    gone = before.records - after.records
    new_console(arguments.common).print(
        f"{log.name}: {gone} records before {number} dropped, {after.records} are left", highlight=False
    )
    write_json(arguments.common, {"log": log.name, "dropped": gone, **asdict(after)})
    return 0


def _logs(place: str) -> list[RecordedLog]:
    if not place:
        raise UsageError("say where: proreus records ACTION PLACE (a store, or a folder)")
    return logs_at(place)


def _lines(logs: Sequence[RecordedLog], since: int) -> Iterator[bytes]:
    for log in logs:
        for record in exported(log, since):
            yield (json.dumps(record, separators=(",", ":")) + "\n").encode()


def _table(log_contents: dict[str, LogContents]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("log", "records", "first", "last", "parts", "bytes", "damaged", "lost"):
        table.add_column(title, justify="left" if title == "log" else "right")
    for name, entry in log_contents.items():
        numbers: list[Any] = [
            entry.records,
            entry.first,
            entry.last,
            entry.parts,
            entry.bytes,
            entry.damaged,
            entry.lost,
        ]
        table.add_row(name, *("" if number is None else str(number) for number in numbers))
    return table
