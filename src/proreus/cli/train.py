"""`proreus train WORLD`: learn a policy; Ctrl-C saves, `--resume` goes on as if nothing had happened.

Each algorithm has flags of its own: the settings of its learner, which is imported when it is asked for.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from proreus.cli.arguments import Output, new_console, parse_named, prepare
from proreus.cli.train_scenarios import PodsTraining, TrainingFlags, VmsTraining, WindowsTraining
from proreus.cli.training import interrupt_noted, interrupted_and_saved, kept_work_named, shown
from proreus.learning.learner import EvolutionLearner, GradientLearner, Learner, Task, learn
from proreus.learning.runs import SETTINGS, read_settings, scenarios_of
from proreus.learning.settings import FORMER_NAMES, config_from
from proreus.model.errors import InputError, UsageError
from proreus.model.files import write_atomically
from proreus.workers.processes import Workers

_EXTRA = ("torch", "cmaes")
"""Packages of the extra `learn`."""


@dataclass(frozen=True)
class Trained:
    """What can be trained in a world."""

    flags: type[TrainingFlags]
    learners: Mapping[str, tuple[str, str]]
    """Algorithm -> (what it learns, "module:LEARNER"); the first one is the default."""
    examples: Mapping[str, str]


_PODS, _VMS = "proreus.worlds.pods.training", "proreus.worlds.vms.training"
WORLDS = {
    "pods": Trained(
        PodsTraining,
        {
            "es": ("evolution strategy over a linear scorer that starts from FGD", f"{_PODS}.learners:ES"),
            "ppo": ("a scorer network", f"{_PODS}.learners:PPO"),
            "ddqn": ("a network that values every action", f"{_PODS}.torch_learners:DDQN"),
        },
        {
            "es": "--scenarios gpu --generations 20 --out runs/x",
            "ppo": "--scenarios gpu@20 --steps 200000 --out runs/p",
            "ddqn": "--scenarios gpu@7 --steps 30000 --out runs/q",
        },
    ),
    "vms": Trained(
        VmsTraining,
        {
            "es": (
                "evolution strategy over a linear scorer that starts from first fit",
                f"{_VMS}.learners:ES",
            ),
            "qmix": (
                "servers as agents that bid, and a mixer of their values",
                f"{_VMS}.torch_learners:QMIX",
            ),
            "ppo": ("a network that bids", f"{_VMS}.torch_learners:PPO"),
            "ddqn": ("a network that values every place", f"{_VMS}.torch_learners:DDQN"),
        },
        {
            "es": "--scenario huawei/waiting --generations 40 --out runs/vms",
            **{name: f"--scenario recovering@5 --out runs/{name}" for name in ("qmix", "ppo", "ddqn")},
        },
    ),
    "rebalance": Trained(
        WindowsTraining,
        {"es": ("the evolution strategy", "proreus.worlds.rebalance.windows.training.learners:ES")},
        {"es": "--scenarios windows/serial,windows/parallel --out runs/moves"},
    ),
}


@dataclass(frozen=True)
class RunFlags:
    """Flags of training in every world: where the run is kept and who does the work."""

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """The folder of the run: settings, journal, checkpoints, TensorBoard files."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """Go on with this run: algorithm, scenarios and settings are those it was started with."""
    processes: int = 0
    """Workers on this machine; 0: one per core. Does not change the result."""
    ray: Annotated[str, tyro.conf.arg(metavar="ADDRESS|local")] = ""
    """Spread populations (es) and rollouts (ppo of pods) over a Ray cluster: host:port of its head, auto, or
    local to start one here. Does not change the result."""


def run(words: Sequence[str]) -> int:
    """Train until done or interrupted."""
    world = words[0] if words and words[0] in WORLDS else "pods"
    trained = WORLDS[world]
    algorithm = algorithm_of(words, world, tuple(trained.learners))
    learner = _learner(world, algorithm)
    arguments = _parsed(learner, trained, words)
    prepare(arguments.output)
    flags: RunFlags = arguments.run
    workers = Workers(flags.processes, flags.ray)
    learner.check(workers)
    given = tuple(getattr(arguments, name) for name in _as_flags(learner))
    task = _task(learner, flags, arguments.chosen, given, workers)
    summary = _watch(learner, task)
    console = new_console()
    console.print(f"best checkpoint: {task.folder / 'best'}", soft_wrap=True)
    if arguments.output.json is not None:
        write_atomically(arguments.output.json, (json.dumps(summary, indent=2) + "\n").encode())
    return 0


def algorithm_of(words: Sequence[str], world: str, known: Sequence[str]) -> str:
    """Whose flags these are: the resumed run's algorithm, else that of --algo, else the first known.

    A run is resumed in its own world and by its own algorithm.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--algo", default="")
    parser.add_argument("--resume", default="")
    try:
        found, _ = parser.parse_known_args(list(words))
    except argparse.ArgumentError:
        return known[0]  # a flag without its value: the real parser says so
    if not found.resume:
        return found.algo if found.algo in known else known[0]
    folder = Path(found.resume)
    algorithm = str(read_settings(folder, world)["algorithm"])
    if algorithm not in known:
        raise InputError(f"no algorithm is called {algorithm!r}", file=folder, field="algorithm")
    if found.algo and found.algo != algorithm:
        raise UsageError(
            f"--algo {found.algo}: {folder} is a run of {algorithm} and goes on as such (leave --algo out)"
        )
    return algorithm


def _learner(world: str, algorithm: str) -> Learner:
    """Imported now; one line where the extra is missing."""
    module, _, name = WORLDS[world].learners[algorithm][1].partition(":")
    missing = UsageError(
        f"proreus train {world} --algo {algorithm} needs the extra `learn`: pip install 'proreus[learn]'"
    )
    try:
        learner: Learner = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name in _EXTRA:
            raise missing from error
        raise
    if learner.needs and importlib.util.find_spec(learner.needs) is None:
        raise missing
    return learner


def _parsed(learner: Learner, trained: Trained, words: Sequence[str]) -> Any:
    """The flags of a learner: its settings, what to train on, and where the run is kept."""
    listed = "; ".join(f"{name}: {about}" for name, (about, _) in trained.learners.items())
    help_text = f"{listed}. Each has flags of its own: --algo {tuple(trained.learners)[-1]} --help."
    algo = Annotated[Literal[tuple(trained.learners)], tyro.conf.arg(help=help_text)]  # type: ignore[valid-type]
    fields: list[tuple[str, Any, Any]] = [
        ("algo", algo, field(default=learner.algorithm)),
        ("chosen", trained.flags, field(default_factory=trained.flags)),
        ("run", RunFlags, field(default=RunFlags(Path("runs") / learner.world))),
        *((name, type(config), field(default=config)) for name, config in _as_flags(learner).items()),
        ("output", Output, field(default_factory=Output)),
    ]
    example = (
        f"proreus train {learner.world} --algo {learner.algorithm} {trained.examples[learner.algorithm]}"
    )
    description = f"Flags of --algo {learner.algorithm}. Example: {example}"
    known = {item for config in learner.configs for item in vars(config)}
    kind = make_dataclass("Arguments", fields, frozen=True)
    worlds = ("world", tuple(WORLDS))
    arguments: Any
    _, arguments = parse_named(kind, "train", worlds, [_current(word, known) for word in words], description)
    return arguments


def _as_flags(learner: Learner) -> dict[str, Any]:
    """Name of a group of flags -> their defaults; threads are said by --processes."""
    found = {}
    for name, config in zip(("settings", "lessons"), learner.configs, strict=False):
        kind = type(config)
        if hasattr(config, "threads"):
            hidden: list[tuple[str, Any, Any]] = [
                ("threads", Annotated[int, tyro.conf.Suppress], field(default=0))
            ]
            kind = make_dataclass(kind.__name__, hidden, bases=(kind,), frozen=True)
        found[name] = kind(**vars(config))
    return found


def _current(word: str, known: set[str]) -> str:
    """A word of the command, a former name of a flag replaced by the one it has now."""
    flag, equals, value = word.partition("=")
    name = FORMER_NAMES.get(flag.removeprefix("--").replace("-", "_"), "")
    if not flag.startswith("--") or name not in known:
        return word
    return f"--{name.replace('_', '-')}{equals}{value}"


def _task(
    learner: Learner, flags: RunFlags, chosen: TrainingFlags, given: tuple[Any, ...], workers: Workers
) -> Task:
    """As the flags say, or as the run that is resumed says."""
    if flags.resume is None:
        if given[0].seed < 0:
            raise UsageError("--seed is negative")
        return Task(chosen.chosen(), given, workers, flags.out, resume=False)
    past = read_settings(flags.resume, learner.world)
    scenarios = scenarios_of(past, flags.resume, chosen.read)
    if not scenarios:
        file = flags.resume / SETTINGS
        raise InputError("cannot be resumed: names no scenario", file=file, field="scenarios")
    try:
        configs = tuple(config_from(past["config"], config) for config in given)
    except (TypeError, UsageError) as error:
        file = flags.resume / SETTINGS
        raise InputError(f"cannot be resumed: {error}", file=file, field="config") from error
    return Task(scenarios, configs, workers, flags.resume, resume=True)


def _watch(learner: Learner, task: Task) -> Mapping[str, Any]:
    """Follow a learner to its end, or until Ctrl-C; the result as JSON."""
    console, summary = new_console(), dict[str, Any]()
    evolves = isinstance(learner, EvolutionLearner)
    if evolves:
        population = task.configs[0].population
        runs = population * len(task.scenarios)
        console.print(f"{len(task.scenarios)} scenarios x {population} members = {runs} runs a generation")
    noted = nullcontext(threading.Event()) if evolves else interrupt_noted()
    done = False
    with kept_work_named(task.folder), noted as interrupted, shown(console, learner.algorithm) as show:
        try:
            with closing(learn(learner, task, interrupted.is_set, summary.update)) as progress:
                for told in progress:
                    show(told.done, told.total, told.text)
                    if told.line:
                        console.print(told.line, soft_wrap=True)
                    done = told.done == told.total
        except KeyboardInterrupt:
            if isinstance(learner, GradientLearner):
                raise
            raise interrupted_and_saved(task.folder) from None
        if interrupted.is_set() and not done:
            raise interrupted_and_saved(task.folder)
    return summary
