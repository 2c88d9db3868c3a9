"""The settings of `proreus up` and `proreus agent` from a YAML file: its keys are the flags' names.

What the command line says as well counts instead. Errors name the file, the line and the field.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

from proreus.cli.arguments import flag_names, parse
from proreus.data.cursor import Entry, Mapping, Scalar
from proreus.data.cursor import Sequence as ListTree
from proreus.data.yaml_tree import read_documents
from proreus.model.errors import InputError, UsageError

Arguments = TypeVar("Arguments")
_FLAG = "--config"
_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def parse_with_config(
    kind: type[Arguments], command: str, words: Sequence[str], description: str
) -> Arguments:
    """`parse`, with the settings of the file that --config names behind those of the command line."""
    path = _named(words)
    if path is None:
        return parse(kind, command, words, description)
    stated = {_plain(word) for word in words if word.startswith("--")}
    settings = _settings(path, kind)
    more = [word for _, flag, said in settings if flag not in stated for word in said]
    try:
        return parse(kind, command, [*more, *words], description)
    except UsageError as error:
        for entry, flag, said in settings:
            if said and flag not in stated:
                _check(kind, command, entry, said)
        raise UsageError(f"{path} with the command line: {error}") from None


def _named(words: Sequence[str]) -> Path | None:
    """The file; the last one where several are named, as with other flags."""
    path: Path | None = None
    for place, word in enumerate(words):
        if word == _FLAG and place + 1 < len(words):
            path = Path(words[place + 1])
        elif word.startswith(f"{_FLAG}="):
            path = Path(word.partition("=")[2])
    return path


def _plain(word: str) -> str:
    """A flag without dashes, value and `no-`."""
    return word.removeprefix("--").partition("=")[0].replace("_", "-").removeprefix("no-")


def _settings(path: Path, kind: type[Arguments]) -> list[tuple[Entry, str, list[str]]]:
    """Each setting of the file: where it stands, its flag, and the words that say it."""
    if not path.is_file():
        raise InputError("no such file", file=path)
    documents = read_documents(path)
    if len(documents) != 1 or not isinstance(documents[0].tree, Mapping):
        raise InputError("settings are one mapping of names to values", file=path)
    names = flag_names(kind)
    settings = []
    for key, entry in documents[0].entries():
        flag = key.replace("_", "-")
        if flag not in names or flag == _plain(_FLAG):
            near = get_close_matches(flag, names, n=1, cutoff=0.6)
            raise entry.fail("there is no such setting" + (f"; did you mean {near[0]}?" if near else ""))
        settings.append((entry, flag, _said(entry, flag, names)))
    return settings


def _said(entry: Entry, flag: str, names: Sequence[str]) -> list[str]:
    tree = entry.tree
    if isinstance(tree, ListTree):
        texts = [child.text() for child in entry.children()]
        return [f"--{flag}", *texts] if texts else []
    if not isinstance(tree, Scalar):
        raise entry.fail("a value or a list is needed here")
    if f"no-{flag}" in names:
        if tree.text.lower() not in _TRUTH:
            raise entry.fail(f"{tree.text[:40]!r} is neither true nor false")
        return [f"--{flag}" if _TRUTH[tree.text.lower()] else f"--no-{flag}"]
    return [f"--{flag}", tree.text]


def _check(kind: type[Arguments], command: str, entry: Entry, said: Sequence[str]) -> None:
    """A setting that is wrong by itself is told where it stands; what goes with it is not looked at."""
    try:
        parse(kind, command, said, "")
    except UsageError as error:
        message = str(error).partition(" (see ")[0]
        if re.search(rf"(^|[ '\"]){said[0]}($|[ :,'\"])", message):
            raise entry.fail(message) from None
