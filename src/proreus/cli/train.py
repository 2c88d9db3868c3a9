"""`proreus train WORLD`: learn a policy; Ctrl-C saves, `--resume` goes on as if nothing had happened.

Each algorithm has a module with its flags (`Arguments`) and what it does (`train`), imported when asked for.
"""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Sequence
from typing import get_args

from proreus.cli.arguments import parse_named, prepare
from proreus.cli.training import Algorithm, algorithm_of, asked_for, check_installed
from proreus.cli.worlds import WORLDS as ALL_WORLDS
from proreus.cli.worlds import run_in_world

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
        if words[0] != "vms":  # which asks for what the algorithm needs
            check_installed("cmaes", f"proreus train {words[0]}")
        return run_in_world("train", words, shlex.join(("proreus", "train", *words)))
    algorithm = algorithm_of(words, "pods", get_args(Algorithm))
    check_installed(_NEEDED[algorithm], f"--algo {algorithm}")
    module = importlib.import_module(f"proreus.cli.train_{algorithm}")
    description = f"Flags of --algo {algorithm}. Example: {_EXAMPLES[algorithm]}"
    _, arguments = parse_named(module.Arguments, "train", ("world", WORLDS), words, description)
    prepare(arguments.output)
    asked = asked_for(arguments)
    code: int = module.train(asked)
    return code
