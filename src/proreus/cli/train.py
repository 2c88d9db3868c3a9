"""`proreus train WORLD`: learn a policy; Ctrl-C saves, `--resume` goes on as if nothing had happened.

Each algorithm has a module with its flags (`Arguments`) and what it does (`train`), imported when asked for.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from proreus.cli.arguments import parse_named, prepare
from proreus.cli.training import Algorithm, asked_for
from proreus.cli.worlds import WORLDS as ALL_WORLDS
from proreus.cli.worlds import run_in_world
from proreus.learning.runs import read_settings
from proreus.model.errors import InputError, UsageError

# The worlds whose training has a file of its own.
_OTHER_WORLDS = tuple(world for world, verbs in ALL_WORLDS.items() if "train" in verbs)
WORLDS = ("pods", *_OTHER_WORLDS)
_NEEDED = {"es": "cmaes", "ppo": "numba", "ddqn": "torch"}
_EXAMPLES = {
    "es": "proreus train pods --algo es --scenarios gpu --generations 20 --out runs/x",
    "ppo": "proreus train pods --algo ppo --scenarios gpu@20 --steps 200000 --out runs/p",
    "ddqn": "proreus train pods --algo ddqn --scenarios gpu@7 --steps 30000 --out runs/q",
}


def run(words: Sequence[str]) -> int:
    """Train until done or interrupted."""
    if words and words[0] in _OTHER_WORLDS:
        _check_installed("cmaes", f"proreus train {words[0]}")
        return run_in_world("train", words, shlex.join(("proreus", "train", *words)))
    algorithm = _algorithm(words)
    _check_installed(_NEEDED[algorithm], f"--algo {algorithm}")
    module = importlib.import_module(f"proreus.cli.train_{algorithm}")
    description = f"Flags of --algo {algorithm}. Example: {_EXAMPLES[algorithm]}"
    _, arguments = parse_named(module.Arguments, "train", ("world", WORLDS), words, description)
    prepare(arguments.output)
    asked = asked_for(arguments)
    code: int = module.train(asked)
    return code


def _check_installed(package: str, what: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise UsageError(f"{what} needs the extra `learn`: pip install 'proreus[learn]'")


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
