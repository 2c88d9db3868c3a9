"""`proreus train WORLD`: learn a policy; Ctrl-C saves, `--resume` goes on as if nothing had happened.

Each algorithm has a module with its flags (`Arguments`) and what it does (`train`), imported when asked for.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from proreus.cli.arguments import parse_named, prepare
from proreus.cli.training import Algorithm, asked_for
from proreus.learning.runs import read_settings
from proreus.model.errors import InputError, UsageError

WORLDS = ("pods",)
_OF_THEIR_OWN = {"rebalance": "proreus.cli.train_windows"}
"""Worlds whose module has all of the verb: the flags of the world of pods would mean nothing there."""
_NEEDED = {"es": "cmaes", "ppo": "numba", "ddqn": "torch"}
_EXAMPLES = {
    "es": "proreus train pods --algo es --scenarios gpu --generations 20 --out runs/x",
    "ppo": "proreus train pods --algo ppo --scenarios gpu@20 --steps 200000 --out runs/p",
    "ddqn": "proreus train pods --algo ddqn --scenarios gpu@7 --steps 30000 --out runs/q",
}


def run(words: Sequence[str]) -> int:
    """Train until done or interrupted."""
    if words and words[0] in _OF_THEIR_OWN:
        own: int = importlib.import_module(_OF_THEIR_OWN[words[0]]).run(words[1:])
        return own
    algorithm = _algorithm(words)
    if importlib.util.find_spec(_NEEDED[algorithm]) is None:
        raise UsageError(f"--algo {algorithm} needs the extra `learn`: pip install 'proreus[learn]'")
    module = importlib.import_module(f"proreus.cli.train_{algorithm}")
    description = f"Flags of --algo {algorithm}. Example: {_EXAMPLES[algorithm]}"
    _, arguments = parse_named(
        module.Arguments, "train", ("world", (*WORLDS, *_OF_THEIR_OWN)), words, description
    )
    prepare(arguments.output)
    asked = asked_for(arguments)
    code: int = module.train(asked)
    return code


def _algorithm(words: Sequence[str]) -> str:
    """Whose flags these are: the resumed run's algorithm, else that of --algo, else es."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--algo", default="")
    parser.add_argument("--resume", default="")
    try:
        found, _ = parser.parse_known_args(list(words))
    except argparse.ArgumentError:
        return "es"  # a flag without its value: the real parser says so
    known = get_args(Algorithm)
    if not found.resume:
        return found.algo if found.algo in known else "es"
    folder = Path(found.resume)
    algorithm = read_settings(folder)["algorithm"]
    if algorithm not in known:
        raise InputError(f"no algorithm is called {algorithm!r}", file=folder, field="algorithm")
    return str(algorithm)
