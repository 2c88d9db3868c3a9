"""Machine code for the tests, made once by two processes before the workers of a parallel run start.

Otherwise each worker compiles every kernel for itself. What was done for the same kernels is not done again.

    python -m tests.warming placement   # or: others
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path
from typing import Any

from numba.core.registry import cpu_target

import proreus
from proreus.engine.scheduler.warm_up import warm_up_scheduling
from proreus.kernels.cache_dir import can_be_written
from proreus.kernels.jit import folder_of
from proreus.worlds import world
from proreus.worlds.pods.state.open.warm_up import warm_up_open

WORLDS = {"placement": ("pods", "vms"), "others": ("rebalance", "workflows", "functions", "inference")}
"""Two halves that take about as long as each other: a minute of CPU each where nothing is compiled yet."""
_SHORT = {"deployments": 1, "train_seeds": 1, "validation_seeds": 1, "stretch": 12}
_FEW = {"validation_runs": 1, "confirm_runs": 2}
_TRAININGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("pods", {"algo": "ppo", "steps": 256, "lanes": 2, "rollout_steps": 16, "horizon": 30}),
    ("pods", {"algo": "ddqn", "steps": 64, "warm_up": 32, "horizon": 20, "hidden": 8}),
    ("vms", {"algo": "es", "generations": 1, "population": 4, "starts": 4, "validation_starts": 4}),
    ("vms", {"algo": "ppo", "steps": 64, "lanes": 2, "rollout_steps": 16, "validation_starts": 4}),
    ("rebalance", {"algo": "es", "generations": 1, "population": 4, **_SHORT}),
    (
        "functions",
        {"generations": 1, "population": 4, "runs": 1, "validation_runs": 2, "confirm_runs": 2},
    ),
    (
        "inference",
        {"algo": "es", "generations": 1, "population": 4, "windows": 1, "window_seconds": 600.0, **_FEW},
    ),
    ("inference", {"algo": "ppo", "steps": 32, "lanes": 2, "rollout_steps": 16, "hidden": 8, **_FEW}),
)
_SCENARIOS = {
    "pods": "gpu@5",
    "vms": "waiting@2",
    "rebalance": "windows/serial",
    "workflows": "busy@2",
    "functions": "busy@5",
    "inference": "surge",
}
_KINDS = {"pods": ("small@5", "gpu@5"), "inference": ("surge", "spot")}
"""Where one scenario does not reach all kernels."""
_SIZES: dict[str, dict[str, Any]] = {
    "vms": {"starts": 2},
    "inference": {"seconds": 300.0, "rate": 6.0, "interval": 20.0},
}
_CROWDED = {"inference": {"rate": 25.0}}
"""Where training finds nothing to learn in little work."""


def warm_up(half: str) -> None:
    """Play and train a little of everything."""
    for name in WORLDS[half]:
        world(name).warm_up()
        for scenario in _KINDS.get(name, (_SCENARIOS[name],)):
            chosen = proreus.make_scenario(name, scenario, **_SIZES.get(name, {}))
            for policy in world(name).policies(chosen).names:
                proreus.simulate(name, chosen, policy, record=policy in ("kube", "first_fit"))
    if "pods" in WORLDS[half]:
        warm_up_open()
        warm_up_scheduling()
    if "rebalance" in WORLDS[half]:
        for policy in ("greedy_fragment", "hotspot", "random", "best_fit", "search"):
            proreus.simulate("rebalance", "snapshot@6", policy)
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, settings) in enumerate(_TRAININGS):
            if name not in WORLDS[half]:
                continue
            kind, sizes = _SCENARIOS[name], _CROWDED.get(name)
            work = kind if sizes is None else proreus.make_scenario(name, kind, **sizes)
            proreus.train(name, work, out=Path(folder) / str(number), **settings)


def marks(half: str) -> list[Path]:
    """Files beside the machine code of each world that say: this was done here. None where Numba chooses."""
    machine = repr(cpu_target.target_context.codegen().magic_tuple())  # as in Numba's own index
    done = hashlib.sha256(Path(__file__).read_bytes() + machine.encode()).hexdigest()[:16]
    worlds = Path(proreus.__file__).parent / "worlds"
    folders = [folder_of(worlds / name / "world.py") for name in WORLDS[half]]
    return [folder / f"warmed-for-tests-{done}" for folder in folders if folder is not None]


if __name__ == "__main__":
    done_marks = marks(sys.argv[1])
    if not done_marks or not all(mark.exists() for mark in done_marks):
        warm_up(sys.argv[1])
        for mark in done_marks:
            if can_be_written(mark.parent):
                mark.touch()
