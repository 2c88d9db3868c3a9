"""Flags may stand between a kind and its names, as with kubectl: `get pods -n default web -o yaml`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, get_type_hints

_HELP = ("-h", "--help")


def flags_first(kind: type[Any], words: Sequence[str]) -> list[str]:
    """The same words with those that are no flags at the end, in their order.

    The parser takes all of them from one place only. Every flag of `kind` must be a switch or take one value.
    """
    switches, flags, names = frozenset((*_HELP, *_switches(kind))), list[str](), list[str]()
    rest = iter(words)
    for word in rest:
        if word == "--":
            names += rest
        elif word == "-" or not word.startswith("-"):
            names.append(word)
        else:
            flags.append(word)
            if _takes_the_next(word, switches):
                flags += [value for value in [next(rest, None)] if value is not None]
    return [*flags, "--", *names] if names else flags


def _takes_the_next(word: str, switches: frozenset[str]) -> bool:
    if "=" in word:
        return False
    if word.startswith("--"):
        return word.replace("_", "-") not in switches
    for place, letter in enumerate(word[1:], 2):  # -Aw are two switches, -nweb is a flag and its value
        if f"-{letter}" not in switches:
            return place == len(word)
    return False


def _switches(kind: type[Any]) -> Iterator[str]:
    """All ways to write a flag that takes no value."""
    hints = get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        plain = hint.__origin__ if hasattr(hint, "__metadata__") else hint
        if dataclasses.is_dataclass(plain) and isinstance(plain, type):
            yield from _switches(plain)
        if plain is bool:
            written = field.name.replace("_", "-")
            yield f"--{written}"
            yield f"--no-{written}"
            for annotation in getattr(hint, "__metadata__", ()):
                yield from getattr(annotation, "aliases", None) or ()
