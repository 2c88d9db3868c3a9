"""`proreus train WORLD`: learn a policy; Ctrl-C saves, `--resume` goes on as if nothing had happened."""

from __future__ import annotations

import importlib.util
import json
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console

from proreus.cli.arguments import Common, new_console, parse_named, prepare
from proreus.cli.compare import split_names
from proreus.cli.workloads import WorkloadArguments, scenario_of
from proreus.compare.scenario import Scenario
from proreus.compare.simulate import load_kernels
from proreus.compare.workers import available_cores, worker_pool
from proreus.learning.runs import read_settings
from proreus.model.errors import UsageError
from proreus.model.files import write_atomically

WORLDS = ("pods",)
Past = dict[str, Any] | None
"""The settings of the run that is resumed."""


@dataclass(frozen=True)
class EvolutionArguments:
    """Settings of the evolution strategy (--algo es)."""

    generations: int = 40
    """How many populations to try."""
    population: int = 16
    """Weight vectors per generation."""
    sigma: float = 0.3
    """Width of the first population around the starting rule."""
    by_demand: bool = False
    """Also learn how the weights shift with what the workload asks of the cluster."""
    train_seeds: int = 10
    """How many seeds training draws from (1000, 1001, ...)."""
    validation_seeds: int = 4
    """How many seeds the result is judged on while training (2000, 2001, ...)."""
    evaluate_every: int = 5
    """Generations between judgements."""


@dataclass(frozen=True)
class PPOArguments:
    """Settings of PPO (--algo ppo)."""

    steps: int = 500_000
    """Decisions to learn from."""
    lanes: int = 64
    """Copies of the world that are played side by side."""
    horizon: int = 0
    """Pods of an episode; 0: as many as the workload has."""
    reward: Literal["allocation", "completion"] = "allocation"
    """GPU (else CPU) share placed, or little time in the system."""
    learning_rate: float = 1e-3
    """Of Adam, at the start; it falls to a tenth."""
    entropy: float = 0.01
    """Weight of the entropy bonus at the start; it falls to zero."""
    judge_every: int = 10
    """Updates between judgements on held-out seeds."""
    start: Literal["rule", "random"] = "rule"
    """Start from the strongest rule, or from nothing."""
    device: Literal["cpu", "cuda", "auto"] = "auto"
    """Where gradients are computed (the worlds always play on the cores); auto: cuda where there is one."""


@dataclass(frozen=True)
class TrainArguments:
    """Flags of `proreus train pods`."""

    algo: Literal["es", "ppo"] = "es"
    """es: evolution strategy over a linear scorer that starts from FGD; ppo: a scorer network."""
    scenarios: str = "gpu"
    """What to train on, separated by commas."""
    workload: WorkloadArguments = field(default_factory=WorkloadArguments)
    evolution: EvolutionArguments = field(default_factory=EvolutionArguments)
    ppo: PPOArguments = field(default_factory=PPOArguments)
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/pods")
    """The folder of the run: settings, journal, checkpoints, TensorBoard files."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """Go on with this run: algorithm, scenarios and settings are those it was started with."""
    processes: int = 0
    """Worker processes; 0: one per core."""
    common: Common = field(default_factory=Common)


def run(words: Sequence[str]) -> int:
    """Train until done or interrupted."""
    description = "Example: proreus train pods --algo es --scenarios gpu --generations 20 --out runs/x"
    _, arguments = parse_named(TrainArguments, "train", ("world", WORLDS), words, description)
    prepare(arguments.common)
    if importlib.util.find_spec("cmaes") is None:
        raise UsageError("training needs the extra `learn`: pip install 'proreus[learn]'")
    past = read_settings(arguments.resume) if arguments.resume is not None else None
    names = split_names(arguments.scenarios) if past is None else past["scenarios"]
    if not names:
        raise UsageError("--scenarios: name at least one")
    scenarios = tuple(scenario_of(arguments.workload, name) for name in names)
    algo = arguments.algo if past is None else past["algorithm"]
    if algo == "es":
        return _evolve(arguments, scenarios, past, new_console())
    return _ppo(arguments, scenarios, past, new_console())


def _evolve(arguments: TrainArguments, scenarios: tuple[Scenario, ...], past: Past, console: Console) -> int:
    from proreus.learning.es import ESConfig, evolve  # cmaes comes with the extra `learn`
    from proreus.learning.evolution_run import EvolutionRun

    asked = {**asdict(arguments.evolution), "seed": arguments.common.seed}
    config = ESConfig(**(asked if past is None else past["config"]))
    folder = arguments.resume or arguments.out
    record = EvolutionRun(folder, config, [s.name for s in scenarios], resume=arguments.resume is not None)
    workers = arguments.processes or available_cores()
    runs = config.population * len(scenarios)
    console.print(f"{len(scenarios)} scenarios x {config.population} members = {runs} runs a generation")
    load_kernels()
    try:
        with worker_pool(workers) as pool, console.status("first generation") as status:
            for generation in evolve(config, scenarios, pool, record.past_fitness):
                console.print(record.add(generation))
                rate = runs / max(generation.seconds, 1e-9)
                status.update(f"{generation.number + 1} of {config.generations} done, {rate:.1f} runs/s")
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted and saved: go on with --resume {folder}") from None
    finally:
        record.close()
    console.print(f"best checkpoint: {folder / 'best'}", soft_wrap=True)
    if arguments.common.json is not None:
        write_atomically(arguments.common.json, (json.dumps(record.summary(), indent=2) + "\n").encode())
    return 0


def _ppo(arguments: TrainArguments, scenarios: tuple[Scenario, ...], past: Past, console: Console) -> int:
    from proreus.learning.ppo import PPOConfig
    from proreus.learning.ppo_run import PPORunConfig, train_ppo

    flags = arguments.ppo
    config = PPOConfig(
        steps=flags.steps,
        learning_rate=flags.learning_rate,
        learning_rate_end=flags.learning_rate / 10,
        entropy=flags.entropy,
        seed=arguments.common.seed,
        threads=arguments.processes,
        device=flags.device,
    )
    around = PPORunConfig(
        lanes=flags.lanes,
        horizon=flags.horizon,
        reward=flags.reward,
        evaluate_every=flags.judge_every,
        start=flags.start,
    )
    if past is not None:
        known = {item.name for item in fields(PPOConfig)}
        config = PPOConfig(**{name: value for name, value in past["config"].items() if name in known})
        around = PPORunConfig(**{k: v for k, v in past["config"].items() if k not in known})
    folder = arguments.resume or arguments.out
    result: dict[str, object] = {}
    with interrupt_noted() as interrupted, console.status("compiling kernels, first update") as status:
        resume = arguments.resume is not None
        updates = train_ppo(folder, scenarios, (config, around), resume=resume, stopped=interrupted.is_set)
        for report in updates:
            progress = report.progress
            figures = (
                f"{progress.steps:,} steps, {progress.steps_per_second:,.0f}/s, "
                f"return {progress.episode_return:.2f}, entropy {progress.entropy:.2f}, kl {progress.kl:.4f}"
            )
            status.update(f"update {progress.update} of {progress.updates}: {figures}")
            if report.validation is not None:
                gains = ", ".join(f"{name} {gain:+.2f}" for name, gain in report.validation.items())
                console.print(f"{figures}; held out: {gains}{' (best so far)' if report.is_best else ''}")
                result = {"algorithm": "ppo", "steps": progress.steps, "validation": report.validation}
    if interrupted.is_set():
        raise KeyboardInterrupt(f"interrupted and saved: go on with --resume {folder}")
    console.print(f"best checkpoint: {folder / 'best'}", soft_wrap=True)
    if arguments.common.json is not None:
        write_atomically(arguments.common.json, (json.dumps(result, indent=2) + "\n").encode())
    return 0


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
