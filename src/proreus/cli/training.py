"""What `proreus train` does alike for every algorithm: flags, progress, and what it says when it stops."""

from __future__ import annotations

import argparse
import importlib.util
import json
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import tyro
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)

from proreus.cli.arguments import Output, new_console
from proreus.cli.compare import split_names
from proreus.learning.gradient_run import GradientRun, Report
from proreus.learning.runs import SETTINGS, read_settings, scenarios_of
from proreus.model.errors import InputError, UsageError, WorkError
from proreus.model.files import write_atomically
from proreus.workers.processes import Workers, loss_in_words
from proreus.worlds.pods.flags import WorkloadArguments, scenario_of
from proreus.worlds.pods.scenarios import Scenario

Algorithm = Literal["es", "ppo", "ddqn"]
Algo = Annotated[
    Algorithm,
    tyro.conf.arg(
        help="es: evolution strategy over a linear scorer that starts from FGD; ppo: a scorer network; "
        "ddqn: a network that values every action. Each has flags of its own: --algo ppo --help."
    ),
]
Config = TypeVar("Config")
Chosen = TypeVar("Chosen")
_USUAL = "gpu"


@dataclass(frozen=True)
class RunArguments:
    """Flags of training in every world: where the run is kept."""

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/pods")
    """The folder of the run: settings, journal, checkpoints, TensorBoard files."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """Go on with this run: algorithm, scenarios and settings are those it was started with."""
    output: Output = field(default_factory=Output)

    @property
    def folder(self) -> Path:
        """Of the run."""
        return self.resume or self.out


@dataclass(frozen=True)
class TrainArguments(RunArguments):
    """Flags of `proreus train pods` that every algorithm has."""

    algo: Algo = "es"
    scenarios: str = ""
    """What to train on, separated by commas (default: gpu)."""
    workload: WorkloadArguments = field(default_factory=WorkloadArguments)
    processes: int = 0
    """Worker processes (es) or threads (ppo); 0: one per core. Does not change the result."""
    ray: Annotated[str, tyro.conf.arg(metavar="ADDRESS|local")] = ""
    """Spread populations (es) and rollouts (ppo) over a Ray cluster: host:port of its head, auto, or local to
    start one here. Does not change the result."""

    def workers(self) -> Workers:
        """Who does the work."""
        return Workers(self.processes, self.ray)


@dataclass(frozen=True)
class Asked(Generic[Chosen]):
    """What a run shall learn from: as the flags say, or as the run that is resumed says."""

    arguments: RunArguments
    scenarios: tuple[Chosen, ...]
    past: Mapping[str, Any] | None
    """The settings of the run that is resumed."""

    @property
    def resumes(self) -> bool:
        """Whether a run goes on."""
        return self.past is not None

    def config(self, given: Config) -> Config:
        """The settings that were given, or those of the run that is resumed."""
        if self.past is None:
            if getattr(given, "seed", 0) < 0:
                raise UsageError("--seed is negative")
            return given
        names = {item.name for item in fields(given)}  # type: ignore[arg-type]  # a dataclass of a learner
        stored = self.past["config"]
        try:
            # JSON knows no tuples.
            return type(given)(
                **{
                    name: tuple(value) if isinstance(value, list) else value
                    for name, value in stored.items()
                    if name in names
                }
            )
        except (TypeError, UsageError) as error:
            file = self.arguments.folder / SETTINGS
            raise InputError(f"cannot be resumed: {error}", file=file, field="config") from error


def check_installed(package: str, what: str) -> None:
    """Whether training can begin; one line where the extra is missing."""
    if importlib.util.find_spec(package) is None:
        raise UsageError(f"{what} needs the extra `learn`: pip install 'proreus[learn]'")


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


def asked_for(arguments: TrainArguments) -> Asked[Scenario]:
    """Reads the settings of the run that is resumed, where one is."""
    if arguments.resume is not None:
        past = read_settings(arguments.resume, "pods")
        return Asked(arguments, scenarios_of(past, arguments.resume, arguments.workload.data), past)
    workload = arguments.workload
    names: list[str | None] = [*split_names(arguments.scenarios)]
    if not names:
        names = [None if workload.scenario or workload.format else _USUAL]
    return Asked(arguments, tuple(scenario_of(workload, name) for name in names), None)


Show = Callable[[int, int, str], None]
"""Hears how much is done, of how much, and how it goes."""


@contextmanager
def shown(console: Console, what: str) -> Iterator[Show]:
    """A progress bar over the generations or updates of a run."""
    bar = Progress(
        SpinnerColumn(),
        TextColumn(what),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    with bar:
        task = bar.add_task("compiling kernels", total=None)
        yield lambda done, total, text: bar.update(task, completed=done, total=total, description=text)


@contextmanager
def interrupt_noted() -> Iterator[threading.Event]:
    """Ctrl-C sets the event, so that a learner stops between two updates; a second one ends it at once."""
    event = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: object) -> None:
        event.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def kept_work_named(folder: Path) -> Iterator[None]:
    """Whatever ends the run says what is left of it and how to go on."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        # Without words it is the second Ctrl-C, which did not wait for the update to end.
        words = str(interrupt) or _and_kept("interrupted at once", folder)
        raise KeyboardInterrupt(words) from None
    except BrokenExecutor as error:
        raise WorkError(_and_kept(loss_in_words(error, "in training"), folder)) from error
    except WorkError as error:
        raise WorkError(_and_kept(str(error), folder)) from error


def interrupted_and_saved(folder: Path) -> KeyboardInterrupt:
    """For Ctrl-C that lost nothing."""
    if not (folder / SETTINGS).exists():
        return KeyboardInterrupt("interrupted before there was anything to save")
    return KeyboardInterrupt(f"interrupted and saved: go on with --resume {folder}")


def _and_kept(what: str, folder: Path) -> str:
    if not (folder / SETTINGS).exists():
        return f"{what}; there was nothing to save yet"
    return f"{what}; what was saved is kept: go on with --resume {folder}"


def finish(asked: Asked[Any], summary: Mapping[str, Any], console: Console) -> int:
    """Say where the result is."""
    console.print(f"best checkpoint: {asked.arguments.folder / 'best'}", soft_wrap=True)
    if asked.arguments.output.json is not None:
        write_atomically(asked.arguments.output.json, (json.dumps(summary, indent=2) + "\n").encode())
    return 0


def watch(
    asked: Asked[Any],
    run: GradientRun,
    reports: Callable[[Callable[[], bool]], Iterator[Report]],
    figures: Callable[[Mapping[str, float]], str],
) -> int:
    """Follow a gradient-based learner to its end, or until Ctrl-C."""
    console, folder = new_console(), asked.arguments.folder
    done = False
    with (
        kept_work_named(folder),
        interrupt_noted() as interrupted,
        shown(console, run.algorithm) as show,
    ):
        for report in reports(interrupted.is_set):
            update = report.update
            text = f"{update.figures['steps']:,.0f} steps, {update.figures['steps_per_second']:,.0f}/s, "
            text += figures(update.figures)
            show(update.number, update.total, text)
            if report.validation is not None:
                gains = ", ".join(f"{name} {gain:+.2f}" for name, gain in report.validation.items())
                best = " (best so far)" if report.is_best else ""
                console.print(f"{text}; held out: {gains}{best}", soft_wrap=True)
            done = update.number == update.total
        if interrupted.is_set() and not done:
            raise interrupted_and_saved(folder)
    return finish(asked, run.summary(), console)
