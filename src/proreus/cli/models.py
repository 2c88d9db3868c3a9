"""`proreus models ACTION`: the versions of the service's models, and training new ones."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.table import Table

from proreus.cli.arguments import CommonArguments, parse, prepare
from proreus.cli.output import new_console, write_json
from proreus.model.errors import InputError, UsageError, unknown_name
from proreus.serving.models.version_store import ModelStore

DEFAULT_NAME = "vector"


@dataclass(frozen=True)
class ModelsArguments:
    """Flags of `proreus models`."""

    store: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """The folder of model versions that the service was started with."""
    name: str = ""
    """Which model; may be left out where the store holds one only."""
    version: int = 0
    """Which version: for `show` (0: the live one) and `promote`."""
    keep: int = 5
    """For `gc`: how many of the newest versions stay, besides the live one and the one to roll back to."""
    common: CommonArguments = field(default_factory=CommonArguments)


def run(words: Sequence[str]) -> int:
    """Look at versions, or change which one is live."""
    if not words or words[0].startswith("-"):
        parse(ModelsArguments, "proreus models list", words, _EXAMPLE)
        raise UsageError(f"say what to do with the models: {', '.join(NAMES)}")
    action, *rest = words
    if action in _ELSEWHERE:
        code: int = importlib.import_module(_ELSEWHERE[action]).run(rest)
        return code
    if action not in ACTIONS:
        raise unknown_name("action", action, NAMES)
    arguments = parse(ModelsArguments, f"proreus models {action}", rest, _EXAMPLE)
    prepare(arguments.common)
    if not arguments.store.is_dir():
        raise InputError("there is no such folder", file=arguments.store)
    store = ModelStore(arguments.store)
    result = ACTIONS[action](store, arguments)
    write_json(arguments.common, result)
    return 0


# Actions with flags of their own; their modules know learners, which looking at versions does not need.
_ELSEWHERE = {"train": "proreus.cli.models_train", "judge": "proreus.cli.models_judge"}
_EXAMPLE = "Example: proreus models list --store models; proreus models promote --store models --version 3"


def _name(store: ModelStore, arguments: ModelsArguments) -> str:
    if arguments.name:
        return arguments.name
    names = store.names()
    if len(names) != 1:
        raise UsageError(f"--name: say which model ({', '.join(names) or 'the store is empty'})")
    return names[0]


def _list(store: ModelStore, arguments: ModelsArguments) -> dict[str, Any]:
    names = [arguments.name] if arguments.name else store.names()
    table = Table(title=f"models in {store.folder}", title_justify="left")
    for column in ("name", "version", "state", "parent", "created", "bytes", "kind", "note"):
        table.add_column(column)
    models: dict[str, Any] = {}
    for name in names:
        records = store.versions(name)
        models[name] = [asdict(record) for record in records]
        for r in records:
            parent = "" if r.parent is None else str(r.parent)
            table.add_row(name, str(r.version), r.state, parent, r.created, f"{r.bytes:,}", r.kind, r.note)
    new_console(arguments.common).print(table)
    return {"models": models}


def _show(store: ModelStore, arguments: ModelsArguments) -> dict[str, Any]:
    name = _name(store, arguments)
    version = arguments.version or store.current(name)
    record = store.record(name, version)
    store.load(name, version)  # says so where its files are damaged
    console = new_console(arguments.common)
    for key, value in asdict(record).items():
        console.print(f"{key:>8}  {value}", soft_wrap=True)
    return {"name": name, **asdict(record)}


def _promote(store: ModelStore, arguments: ModelsArguments) -> dict[str, Any]:
    name = _name(store, arguments)
    if arguments.version < 1:
        raise UsageError("--version: say which version becomes live")
    store.promote(name, arguments.version)
    return _now_live(store, name, arguments)


def _rollback(store: ModelStore, arguments: ModelsArguments) -> dict[str, Any]:
    name = _name(store, arguments)
    store.rollback(name)
    return _now_live(store, name, arguments)


def _now_live(store: ModelStore, name: str, arguments: ModelsArguments) -> dict[str, Any]:
    record = store.record(name, store.current(name))
    new_console(arguments.common).print(f"{name}: version {record.version} is live")
    return {"name": name, "live": record.version}


def _gc(store: ModelStore, arguments: ModelsArguments) -> dict[str, Any]:
    name = _name(store, arguments)
    removed = store.gc(name, arguments.keep)
    new_console(arguments.common).print(
        f"{name}: {len(removed)} versions removed, {len(store.versions(name))} kept"
    )
    return {"name": name, "removed": removed}


ACTIONS: dict[str, Callable[[ModelStore, ModelsArguments], dict[str, Any]]] = {
    "list": _list,
    "show": _show,
    "promote": _promote,
    "rollback": _rollback,
    "gc": _gc,
}
NAMES = (*ACTIONS, *_ELSEWHERE)
