"""The file of `proreus train --config`: settings of a training, as YAML or JSON.

    algo: qmix
    scenarios: [windows/serial]
    steps: 200000
    epsilon_values: [0.9, 0.5, 0.2, 0.2]

Names are those of the flags, with `_` or `-`. The `settings.json` of a run folder, or the folder, is such a
file too. What a file says are defaults: flags override them. A setting that nobody knows, or of the wrong
kind, is an InputError with file, line and field.
"""

from __future__ import annotations

import types
from collections.abc import Collection
from collections.abc import Mapping as Known
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from proreus.contract.scenario import Scenario
from proreus.contract.user_scenarios import read_back
from proreus.contract.world import World
from proreus.data.cursor import Entry, Mapping, Scalar, Sequence, Tree, is_null
from proreus.data.yaml_tree import read_documents
from proreus.learning.learner import Configs, Learner
from proreus.learning.run_folder import SETTINGS
from proreus.learning.settings import FORMER_NAMES
from proreus.model.errors import InputError, UsageError, unknown_name

Config = TypeVar("Config")
_ALGORITHM, _SCENARIOS, _OF_RUN = "algorithm", "scenarios", "config"
_HISTORY = ("kind", "former_lengths")
"""What the settings of a run say besides: what came of it, and how long it once was to be."""
_ARGUMENTS: Known[str, Any] = {"out": Path, "processes": int, "ray": str}
"""Flags of training that are no settings of a learner."""
_OTHERWISE = {"algo": _ALGORITHM, "from": "from_"}
"""Names that a file may have -> those that settings have."""
_MOST = 2**62


@dataclass(frozen=True)
class TrainFile:
    """A file of settings; empty where there is none."""

    path: Path | None = None
    top: Entry | None = None

    @classmethod
    def read(cls, path: Path) -> TrainFile:
        """The file, or the settings of that run folder."""
        file = path / SETTINGS if path.is_dir() else path
        documents = read_documents(file)
        if len(documents) > 1:
            raise InputError("holds several documents, and settings are one", file=file)
        if not isinstance(documents[0].tree, Mapping):
            raise documents[0].fail("needs settings by name")
        return cls(file, documents[0])

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """Every value by the name of its setting; those of a run's `config` among them."""
        if self.top is None:
            return {}
        given = _entries_of(self.top)
        run = given.pop(_OF_RUN, None)
        if run is None:
            return given
        for name, entry in _entries_of(run).items():
            if name in given and given[name].text() != entry.text():
                raise entry.fail(f"{entry.text()}, and {name} beside it is {given[name].text()}")
            given[name] = entry
        return given

    def algorithm(self, known: Known[str, str]) -> str:
        """The one it names; "": none."""
        entry = self.entries.get(_ALGORITHM)
        if entry is None:
            return ""
        if entry.text() not in known:
            raise entry.fail(str(unknown_name("algorithm", entry.text(), known)))
        return entry.text()

    def check(self, world: World, learner: Learner, workload: type[Any]) -> None:
        """Refuse what is of another world, and what is no setting."""
        told = self.entries.get("world")
        if told is not None and told.text() != world.name:
            raise told.fail(f"of the world {told.text()!r}, not of {world.name!r}")
        history = _HISTORY if self.top is not None and self.top.get(_OF_RUN) is not None else ()
        known = {"world", _ALGORITHM, _SCENARIOS, *history, *_ARGUMENTS, *_names(workload)}
        settings = set[str]().union(*map(_names, learner.configs))
        known |= settings | former_names(settings)
        for name, entry in self.entries.items():
            if name not in known:
                spoken = [_spoken(setting) for setting in known]
                raise entry.fail(str(unknown_name("setting", _spoken(name), spoken)))
        kind = self.entries.get("kind")
        if history and kind is not None and kind.text() != (now := self._kind(learner)):
            raise kind.fail(f"{kind.text()!r}, and these settings make one of {now!r}")

    def _kind(self, learner: Learner) -> str:
        return learner.identity((), self.configs(learner)).kind

    def configs(self, learner: Learner) -> Configs:
        """The learner's settings with those of the file."""
        return tuple(self.applied(config, _names(config)) for config in learner.configs)

    def applied(self, config: Config, names: Collection[str]) -> Config:
        """A dataclass of settings or flags with what the file says about those of these names."""
        hints = get_type_hints(type(config))
        said = {FORMER_NAMES[name] if name in former_names(names) else name: name for name in self.entries}
        entries = {name: self.entries[said[name]] for name in names if name in said}
        values = {name: value_of(entry, hints[name]) for name, entry in entries.items()}
        try:
            changed: Config = replace(cast(Any, config), **values)
        except UsageError as error:
            for name, entry in entries.items():
                if name in str(error) or _spoken(name) in str(error):
                    raise entry.fail(str(error)) from error
            raise InputError(str(error), file=self.path) from error
        return changed

    def arguments(self) -> dict[str, tuple[Any, Any]]:
        """Name of a flag of training -> (its type, what the file says)."""
        return {
            name: (kind, value_of(self.entries[name], kind))
            for name, kind in _ARGUMENTS.items()
            if name in self.entries
        }

    def scenarios(self, world: World, data: Path | None) -> tuple[Scenario, ...]:
        """Those that are written out, as a run keeps them; none where they are named."""
        entry = self.entries.get(_SCENARIOS)
        if entry is None or isinstance(entry.tree, Scalar):
            return ()
        written = [child for child in entry.children() if isinstance(child.tree, Mapping)]
        if len(written) not in (0, len(entry.children())):
            raise entry.fail("scenarios are named, or written out, and not both")
        made = []
        for child in written:
            try:
                made.append(read_back(world, _plain(child.tree), data))
            except (ValueError, UsageError) as error:
                raise child.fail(str(error)) from error
        return tuple(made)

    def scenario_names(self) -> str:
        """Those that are named, separated by commas; "": none."""
        entry = self.entries.get(_SCENARIOS)
        if entry is None:
            return ""
        if isinstance(entry.tree, Scalar):
            return entry.text()
        return ",".join(child.text() for child in entry.children() if not isinstance(child.tree, Mapping))

    def fault_of_scenarios(self, error: UsageError) -> InputError:
        """An error about the scenarios that it names."""
        entry = self.entries.get(_SCENARIOS) or self.entries["scenario"]
        return entry.fail(str(error))


def value_of(entry: Entry, kind: Any) -> Any:
    """What an entry says, as a value of that type."""
    origin, options = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _of_union(entry, options)
    if origin is Literal:
        if entry.text() not in options:
            raise entry.fail(f"{entry.text()!r} is none of {', '.join(map(str, options))}")
        return entry.text()
    if origin is tuple:
        return tuple(value_of(child, options[0]) for child in entry.children())
    if is_null(entry.tree):
        raise entry.fail("a value is needed here")
    if kind is bool:
        return entry.truth()
    if kind is int:
        return entry.integer(minimum=-_MOST, maximum=_MOST)
    if kind is float:
        return entry.number(minimum=-float("inf"))
    if kind in (str, Path):
        return kind(entry.text())
    raise entry.fail("cannot be said in a file: use its flag")


def _of_union(entry: Entry, options: tuple[Any, ...]) -> Any:
    if is_null(entry.tree) and type(None) in options:
        return None
    faults = []
    for option in options:
        if option is not type(None):
            try:
                return value_of(entry, option)
            except InputError as error:
                faults.append(error)
    raise faults[-1]


def _entries_of(entry: Entry) -> dict[str, Entry]:
    if not isinstance(entry.tree, Mapping):
        raise entry.fail("needs settings by name")
    known: dict[str, Entry] = {}
    for key, tree in entry.tree.entries.items():
        name = key.replace("-", "_")
        name = _OTHERWISE.get(name, name)
        place = Entry(entry.file, f"{entry.field}.{key}" if entry.field else key, tree)
        if name in known:
            raise place.fail(f"is said twice: {known[name].field} is the same")
        known[name] = place
    return known


def former_names(settings: Collection[str]) -> set[str]:
    """Names that some of these settings had."""
    return {former for former, now in FORMER_NAMES.items() if now in settings}


def _names(config: Any) -> set[str]:
    return {item.name for item in fields(config)}


def _spoken(name: str) -> str:
    """A setting as a file names it."""
    return name.rstrip("_")


def _plain(tree: Tree) -> Any:
    """A tree as plain values."""
    match tree:
        case Mapping():
            return {name: _plain(value) for name, value in tree.entries.items()}
        case Sequence():
            return [_plain(item) for item in tree.items]
        case Scalar():
            if not tree.plain:
                return tree.text
            if is_null(tree):
                return None
            if tree.text in ("true", "false"):
                return tree.text == "true"
            for kind in (int, float):
                try:
                    return kind(tree.text)
                except ValueError:
                    continue
            return tree.text
