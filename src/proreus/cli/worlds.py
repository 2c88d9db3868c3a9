"""The worlds of the command line in one literal, and the way from `proreus VERB WORLD ...` to its file.

A world joins a verb with a module that holds a `COMMAND`: its flags, what its help says, and what it does; or
a function from the words of the command to one, where the flags depend on them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from proreus.cli.arguments import parse_named

# world -> verb -> module with a `COMMAND`; the first world is the one that `proreus VERB --help` shows
WORLDS: dict[str, dict[str, str]] = {
    "pods": {"simulate": "proreus.cli.simulate_pods", "compare": "proreus.cli.compare_pods"},
    "vms": {
        "simulate": "proreus.cli.simulate_vms",
        "compare": "proreus.cli.compare_vms",
    },
    "rebalance": {
        "simulate": "proreus.cli.simulate_windows",
        "compare": "proreus.cli.compare_windows",
    },
}


@dataclass(frozen=True)
class WorldCommand:
    """What a world does for one verb."""

    arguments: type[Any]
    """The dataclass of its flags."""
    run: Callable[[Any, str], int]
    """From the flags and the whole command, as the user typed it, to an exit code."""
    description: str
    """For --help; ends with an example."""


def run_in_world(verb: str, words: Sequence[str], command: str) -> int:
    """`proreus verb WORLD --flags`."""
    offered = [world for world, verbs in WORLDS.items() if verb in verbs]
    asked = words[0] if words and words[0] in offered else offered[0]
    held: WorldCommand | Callable[[Sequence[str]], WorldCommand]
    held = importlib.import_module(WORLDS[asked][verb]).COMMAND
    found = held if isinstance(held, WorldCommand) else held(words)
    _, arguments = parse_named(found.arguments, verb, ("world", offered), words, found.description)
    return found.run(arguments, command)
