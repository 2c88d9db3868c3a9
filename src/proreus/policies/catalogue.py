"""Policies by name: a world's rules, its shipped checkpoint, runs and checkpoints on disk, strangers.

A world has one `Catalogue` for each kind of scenario. A name is, in this order: a rule (`hotspot@0.6` where
it takes a figure), `learned`, the path of a checkpoint or of a training run (`learned@cost` where its kind
takes wishes), a policy that an installed package offers (entry points of the group `proreus.policies`),
`file.py:Name` or `package.module:Name`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proreus.model.errors import InputError, UsageError, unknown_name
from proreus.policies.checkpoint import CARD, Checkpoint, is_checkpoint, load_checkpoint, read_card
from proreus.policies.plugins import find_policy, offered
from proreus.policies.policy_folders import PolicyFolders
from proreus.policies.protocol import Policy

LEARNED = "learned"
PLANNER = "planner"
"""Plays futures with another policy, whose name may follow an @."""
AnyPolicy = Policy[Any, Any]
_LONGEST_PATH, _LONGEST_PART = 4096, 255
"""Bytes that the system takes."""


@dataclass(frozen=True)
class Rule:
    """A policy that needs no training."""

    what: str
    """What it does, for lists."""
    make: Callable[[str, Any, int], AnyPolicy]
    """From the name as it was given, the options and a seed."""
    takes: str = ""
    """What may follow an @ in its name; "": nothing."""
    admitted: Callable[[str, PolicyFolders], str] | None = None
    """What follows the @, as `Catalogue.admitted` answers; None: it names nothing that is loaded."""


@dataclass(frozen=True)
class CheckpointKind:
    """A kind of checkpoint, as its card names it."""

    encoding: str
    """The version of the features that it must have been trained on."""
    make: Callable[[str, Checkpoint, Path, Any, int], AnyPolicy]
    """From a name, the checkpoint, its folder (for errors), the options and a seed."""
    told: Callable[[Any, str], Any] | None = None
    """The options with what follows an @ in its name; None: nothing may."""


@dataclass(frozen=True)
class ShippedCheckpoint:
    """A checkpoint of the package that is not `learned`."""

    what: str
    """What it is, for lists."""
    folder: Path


@dataclass(frozen=True)
class Catalogue:
    """The policies that play one kind of scenario."""

    world: str
    rules: Mapping[str, Rule]
    main: tuple[str, ...]
    """The default of --policies; the first one is that of --policy."""
    kinds: Mapping[str, CheckpointKind] = field(default_factory=dict)
    shipped: Path | None = None
    """The checkpoint called `learned`."""
    others: Mapping[str, ShippedCheckpoint] = field(default_factory=dict)
    """More checkpoints of the package, under names of their own."""
    options: type[Any] | None = None
    """The dataclass of flags that policies read, where there are any."""
    what: str = ""
    """What they play, where a world has several kinds: "windows of requests"."""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Names of policies for the world's other kind of scenario -> what that is."""

    @property
    def names(self) -> tuple[str, ...]:
        """All that ship with the package."""
        return (*self.rules, *((LEARNED,) if self.shipped is not None else ()), *self.others)

    def describe(self) -> Iterable[tuple[str, str]]:
        """(name, what it does) of each."""
        yield from ((name, rule.what) for name, rule in self.rules.items())
        if self.shipped is not None:
            yield LEARNED, "the checkpoint that ships with the package"
        yield from ((name, other.what) for name, other in self.others.items())

    def is_own(self, name: str) -> bool:
        """Whether that is a rule or a checkpoint, and not code from elsewhere; what nobody knows is ours to
        refuse."""
        if not _can_stand(name) or name.partition("@")[0] in self.rules or self.folder_of(name) is not None:
            return True
        return not (":" in name or "/" in name or any(offered(name)) or Path(name).exists())

    def weighs(self, name: str) -> bool:
        """Whether that is a checkpoint whose kind reads wishes, and none are told behind an @."""
        folder = self._place_of(name)
        kind = self.kinds.get(read_card(folder / CARD).kind) if folder is not None else None
        return kind is not None and kind.told is not None

    def make(self, name: str, options: Any = None, seed: int = 0) -> AnyPolicy:
        """The policy of that name; a UsageError names the nearest one known."""
        if not _can_stand(name):
            raise unknown_name("policy", name[:_LONGEST_PART], self.names)
        chosen = options if options is not None or self.options is None else self.options()
        plain, at, _ = name.partition("@")
        rule = self.rules.get(plain)
        if rule is not None and (rule.takes or not at):
            return rule.make(name, chosen, seed)
        folder = self.folder_of(name)
        if folder is not None:
            return self._learned(name, folder, chosen, seed)
        if plain in self.elsewhere:
            raise UsageError(
                f"policy {name!r} is for {self.elsewhere[plain]}; for {self.what} there are "
                f"{', '.join(self.names)}"
            )
        policy = find_policy(name, seed)
        if policy is not None:
            return policy
        if name.endswith(".py"):
            raise UsageError(f"unknown policy {name!r}: say which class or function of it, {name}:NAME")
        if "/" in name or Path(name).is_dir():
            raise UsageError(f"unknown policy {name!r}: there is neither a checkpoint nor a training run")
        raise unknown_name("policy", name, self.names)

    def admitted(self, name: str, folders: PolicyFolders) -> str:
        """The name by which to make a policy that somebody has named over the wire.

        Paths come back resolved, so that what was checked is what is loaded; `NotAdmitted` where it is not to
        be loaded. Nothing is executed here.
        """
        if not _can_stand(name):
            raise unknown_name("policy", name[:_LONGEST_PART], self.names)
        plain, at, suffix = name.partition("@")
        rule = self.rules.get(plain)
        if rule is not None and (rule.takes or not at):
            return (
                name if rule.admitted is None or not suffix else f"{plain}@{rule.admitted(suffix, folders)}"
            )
        shipped = {*((LEARNED,) if self.shipped is not None else ()), *self.others}
        if name in folders.given or {name, name.rpartition("@")[0]} & shipped:
            return name
        for entry in offered(name):
            folders.installed(entry)
            return name
        place, colon, attribute = name.rpartition(":")
        if colon:
            if not place.endswith(".py"):
                raise folders.module(name)
            return f"{folders.file(place)}:{attribute}"
        if "/" not in name and not Path(name).exists():
            raise unknown_name("policy", name, self.names)
        return self._admitted_checkpoint(name, folders)

    def _admitted_checkpoint(self, name: str, folders: PolicyFolders) -> str:
        whole = folders.checkpoint(name)
        before, _, suffix = name.rpartition("@")
        for folder, wishes in ((whole, ""), (folders.checkpoint(before) if before else None, f"@{suffix}")):
            for place in () if folder is None else (folder, folder / "best"):
                if is_checkpoint(place):
                    return f"{folders.checkpoint(str(place))}{wishes}"
        raise UsageError(f"unknown policy {name!r}: there is neither a checkpoint nor a training run")

    def folder_of(self, name: str) -> Path | None:
        """Where the checkpoint of that name lies; the path of a training run stands for its best one."""
        return self._place_of(name) or self._place_of(name.rpartition("@")[0])

    def _place_of(self, name: str) -> Path | None:
        """The same, where nothing is told behind an @."""
        if not name:
            return None
        if name == LEARNED and self.shipped is not None:
            return self.shipped
        if name in self.others:
            return self.others[name].folder
        return next((folder for folder in (Path(name), Path(name) / "best") if is_checkpoint(folder)), None)

    def _learned(self, name: str, folder: Path, options: Any, seed: int) -> AnyPolicy:
        card = read_card(folder / CARD)
        kind = self.kinds.get(card.kind) if card.world == self.world else None
        if kind is None:
            where = f"over {self.what} " if self.what and card.world == self.world else ""
            raise InputError(
                f"a {card.kind!r} policy for {card.world!r} cannot play {where}in the {self.world} world",
                file=folder / CARD,
                field="kind" if card.world == self.world else "world",
            )
        if self._place_of(name) is None:
            suffix = name.rpartition("@")[2]
            if not suffix:
                raise UsageError(f"policy {name!r}: nothing follows the @")
            if kind.told is None:
                raise UsageError(f"policy {name!r}: a {card.kind!r} policy takes nothing behind an @")
            options = kind.told(options, suffix)
        return kind.make(name, load_checkpoint(folder, kind.encoding), folder, options, seed)


def _can_stand(name: str) -> bool:
    """Whether the system can be asked for a file of that name at all: one that is too long is an error."""
    parts = re.split("[/:@]", name)
    return len(name.encode()) < _LONGEST_PATH and all(len(part.encode()) <= _LONGEST_PART for part in parts)
