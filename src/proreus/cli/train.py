"""`proreus train WORLD`: learn a policy; Ctrl-C saves, `--resume` goes on as if nothing had happened.

Each algorithm has flags of its own: the settings of its learner, which is imported when it is asked for.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, fields, make_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console

from proreus.cli.arguments import parse_named, prepare, without
from proreus.cli.compare import scenario_names
from proreus.cli.output import Output, new_console, write_json
from proreus.cli.train_file import TrainFile, former_names
from proreus.cli.training_progress import interrupt_noted, interrupted_and_saved, kept_work_named, shown
from proreus.cli.world_arguments import world_in
from proreus.contract.scenario import Scenario
from proreus.contract.user_scenarios import read_back, scenario_named
from proreus.contract.world import World
from proreus.learning.learner import EvolutionLearner, GradientLearner, Learner, learner_at
from proreus.learning.run import Task, configs_of, learn, resumed
from proreus.learning.run_folder import read_settings
from proreus.learning.settings import FORMER_NAMES
from proreus.model.errors import InputError, UsageError
from proreus.workers.processes import Workers
from proreus.worlds import registered


@dataclass(frozen=True)
class TrainArguments:
    """Flags of training in every world."""

    resume: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """Go on with this run: algorithm, scenarios and settings are those it was started with. A longer length
    (--steps, --generations; of the whole run) extends it."""
    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Settings from a YAML or JSON file, by the names of the flags, or those of a run (its folder, or its
    settings.json). Flags override the file."""
    processes: int = 0
    """Workers on this machine; 0: one per core. Does not change the result."""
    ray: Annotated[str, tyro.conf.arg(metavar="ADDRESS|local")] = ""
    """Spread populations (es) and rollouts (ppo of pods) over a Ray cluster: host:port of its head, auto, or
    local to start one here. Does not change the result."""
    output: Output = field(default_factory=Output)


def run(words: Sequence[str]) -> int:
    """Train until done or interrupted."""
    world = world_in(words)
    if not world.learners:
        raise UsageError(f"the world {world.name!r} has no learners")
    file = file_in(words)
    algorithm, folder = algorithm_of(words, world, file)
    learner = learner_at(world.learners[algorithm])
    if folder is not None:  # its settings are the defaults of what is asked for now
        learner = replace(learner, configs=configs_of(learner, folder))
    file.check(world, learner, world.flags)
    learner = replace(learner, configs=file.configs(learner))
    arguments = _parsed(learner, world, words, file)
    prepare(arguments.output)
    task = _task(learner, world, arguments, file)
    console = new_console(arguments.output)
    for scenario in task.scenarios:
        if caution := scenario.caution((0, 1)):
            console.print(f"note: {caution}", soft_wrap=True)
    summary = _watch(learner, task, console)
    console.print(f"best checkpoint: {task.folder / 'best'}", soft_wrap=True)
    write_json(arguments.output, summary)
    return 0


def file_in(words: Sequence[str]) -> TrainFile:
    """The file of --config; an empty one where there is none. A run that is resumed has its own settings."""
    flags = _first_flags(words)
    if not flags.get("config"):
        return TrainFile()
    if flags.get("resume"):
        raise UsageError(
            f"--config {flags['config']}: {flags['resume']} is resumed with its own settings; to start "
            "another run with them, give --config without --resume"
        )
    return TrainFile.read(Path(flags["config"]))


def _first_flags(words: Sequence[str]) -> dict[str, str]:
    """The flags that say which others there are; none where one lacks its value: the real parser says so."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in ("--algo", "--resume", "--config"):
        parser.add_argument(name, default="")
    try:
        flags, _ = parser.parse_known_args(list(words))
    except argparse.ArgumentError:
        return {}
    return vars(flags)


def algorithm_of(words: Sequence[str], world: World, file: TrainFile) -> tuple[str, Path | None]:
    """(whose flags these are: the resumed run's algorithm, else that of --algo, else that of the file, else
    the world's first; the folder of the resumed run).

    A run is resumed in its own world and by its own algorithm.
    """
    known = tuple(world.learners)
    flags = _first_flags(words)
    wanted = flags.get("algo", "")
    if not flags.get("resume"):
        return wanted if wanted in known else file.algorithm(world.learners) or known[0], None
    folder = Path(flags["resume"])
    algorithm = str(read_settings(folder, world.name)["algorithm"])
    if algorithm not in known:
        raise InputError(f"no algorithm is called {algorithm!r}", file=folder, field="algorithm")
    if wanted and wanted != algorithm:
        raise UsageError(
            f"--algo {wanted}: {folder} is a run of {algorithm} and goes on as such (leave --algo out)"
        )
    return algorithm, folder


def _parsed(learner: Learner, world: World, words: Sequence[str], file: TrainFile) -> Any:
    """The flags of a learner: its settings, what to train on, and where the run is kept."""
    names = tuple(world.learners)
    others = ", ".join(name for name in names if name != learner.algorithm)
    about = f"{learner.algorithm}: {learner.about}."
    about += f" Others, each with flags of its own: {others}." if others else ""
    algo = Annotated[Literal[names], tyro.conf.arg(help=about)]  # type: ignore[valid-type]
    settings = _settings(learner)
    several = _named_by_default(world, file)
    many = Annotated[
        str,
        tyro.conf.arg(help="Scenarios to train on, separated by commas; of recorded work, the first part."),
    ]
    kept = "The folder of the run: settings, journal, checkpoints, TensorBoard files."
    out = Annotated[Path, tyro.conf.arg(metavar="DIR", help=kept)]
    said = file.arguments()
    more: list[tuple[str, Any, Any]] = [
        ("algo", algo, field(default=learner.algorithm)),
        ("scenarios", many, field(default=several)),
        ("out", out, field(default=said.pop("out", (Path, Path("runs") / world.name))[1])),
        *((name, kind, field(default=value)) for name, (kind, value) in said.items()),
        *(_defaults("workload", _workload(world, settings, file))),
        *(item for name, config in _configs(learner).items() for item in _defaults(name, config)),
    ]
    kind = make_dataclass("Train", more, bases=(TrainArguments,), frozen=True)
    command = f"proreus train {world.name} --algo {learner.algorithm}"
    description = f"Flags of --algo {learner.algorithm}. Example: {command} {learner.example}"
    spoken = [_current(word, settings) for word in words]
    parsed: tuple[str, Any] = parse_named(kind, "train", ("world", list(registered())), spoken, description)
    return parsed[1]


def _settings(learner: Learner) -> set[str]:
    """The names of its settings."""
    return {item for config in learner.configs for item in vars(config)}


def _defaults(name: str, value: Any) -> Iterable[tuple[str, Any, Any]]:
    yield name, type(value), field(default=value)


def _named_by_default(world: World, file: TrainFile) -> str:
    """The default of --scenarios."""
    if file.entries.keys() & {"scenario", "scenarios"}:
        return file.scenario_names()
    return ",".join(world.lessons) if len(world.lessons) > 1 else ""


def _workload(world: World, settings: set[str], file: TrainFile) -> Any:
    """The world's flags for what to train on, without those that say nothing about training."""
    usual = world.flags()
    taken = settings | former_names(settings)
    hidden = {
        item.name
        for item in fields(world.flags)  # type: ignore[arg-type]  # a dataclass, as the contract says
        if item.name in taken or item.metadata.get("trains", True) is False
    }
    scenario = getattr(usual, "scenario", "")
    if len(world.lessons) > 1:
        scenario = ""  # --scenarios has them
    elif scenario:
        scenario = world.lessons[0]
    kind = without(world.flags, {name: getattr(usual, name) for name in hidden})
    for name in sorted(hidden & file.entries.keys() - taken):
        raise file.entries[name].fail("says nothing about training")
    return file.applied(kind(**{**vars(usual), "scenario": scenario}), vars(usual).keys() - hidden)


def _configs(learner: Learner) -> dict[str, Any]:
    """Name of a group of flags -> the learner's settings; threads are said by --processes."""
    configs = {}
    for name, config in zip(("settings", "lessons"), learner.configs, strict=False):
        hidden = {"threads": 0} if hasattr(config, "threads") else {}
        configs[name] = without(type(config), hidden)(**vars(config))
    return configs


def _current(word: str, settings: set[str]) -> str:
    """A word of the command, a former name of a flag replaced by the one it has now."""
    flag, equals, value = word.partition("=")
    name = FORMER_NAMES.get(flag.removeprefix("--").replace("-", "_"), "")
    if not flag.startswith("--") or name not in settings:
        return word
    return f"--{name.replace('_', '-')}{equals}{value}"


def _task(learner: Learner, world: World, arguments: Any, file: TrainFile) -> Task:
    """As the flags say, or as the run that is resumed says."""
    workers = Workers(arguments.processes, arguments.ray)
    learner.check(workers)
    given = tuple(getattr(arguments, name) for name in _configs(learner))
    if arguments.resume is None:
        if given[0].seed < 0:
            raise UsageError("--seed is negative")
        return Task(_scenarios(learner, world, arguments, file), given, workers, arguments.out, resume=False)
    data = arguments.workload.data
    asked = {name: value for config in given for name, value in vars(config).items() if name != "threads"}
    return resumed(learner, arguments.resume, workers, lambda entry: read_back(world, entry, data), asked)


def _scenarios(learner: Learner, world: World, arguments: Any, file: TrainFile) -> tuple[Scenario, ...]:
    """Those of --scenarios, the one of the other flags, those of the file, or the world's own."""
    workload, by_default = arguments.workload, _workload(world, _settings(learner), file)
    as_named = arguments.scenarios == _named_by_default(world, file)
    as_in_file = as_named and vars(workload) == vars(by_default)
    if as_in_file and (written := file.scenarios(world, workload.data)):
        return written
    names: list[str | None] = [*scenario_names(arguments.scenarios)]
    if as_named and not as_in_file and workload.scenario not in ("", by_default.scenario):
        names = []  # --scenario is said here, and --scenarios are those of the file or of the world
    if not names:
        names = [None] if getattr(workload, "by_itself", workload.scenario) else [*world.lessons]
    try:
        return tuple(scenario_named(world, workload, name) for name in names)
    except UsageError as error:
        if as_in_file and file.entries.keys() & {"scenario", "scenarios"}:
            raise file.fault_of_scenarios(error) from error
        raise


def _watch(learner: Learner, task: Task, console: Console) -> Mapping[str, Any]:
    """Follow a learner to its end, or until Ctrl-C; the result as JSON."""
    summary = dict[str, Any]()
    evolves = isinstance(learner, EvolutionLearner)
    if evolves:
        population = task.configs[0].population
        count = "1 scenario" if len(task.scenarios) == 1 else f"{len(task.scenarios)} scenarios"
        console.print(f"{count}, {population} members a generation")
    noted = nullcontext(threading.Event()) if evolves else interrupt_noted()
    done = False
    with kept_work_named(task.folder), noted as interrupted, shown(console, learner.algorithm) as show:
        try:
            with closing(learn(learner, task, interrupted.is_set, summary.update)) as progress:
                for run_status in progress:
                    if run_status.total:
                        show(run_status.done, run_status.total, run_status.text)
                    if run_status.line:
                        console.print(run_status.line, soft_wrap=True)
                    done = 0 < run_status.done == run_status.total
        except KeyboardInterrupt:
            if isinstance(learner, GradientLearner):
                raise
            raise interrupted_and_saved(task.folder) from None
        if interrupted.is_set() and not done:
            raise interrupted_and_saved(task.folder)
    return summary
