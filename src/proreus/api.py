"""Proreus from Python: what the command line does, as values for notebooks and programs.

>>> import proreus
>>> result = proreus.compare("pods", scenarios="gpu", policies=["kube", "fgd"], seeds=3)
>>> result.rows, result.to_pandas(), result.plot()

The verbs of the command line call the same functions, so the numbers are the same. `import proreus` offers
these names; each is loaded when it is first used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

from proreus.compare.comparison import CompareRequest
from proreus.compare.comparison import compare as run_comparison
from proreus.compare.results import Compared, Simulated, Trained
from proreus.compare.trials import Progress
from proreus.contract.scenario import Scenario
from proreus.contract.user_scenarios import read_back, scenario_named
from proreus.contract.world import Hear, World
from proreus.data.catalogue import data_dir, holds, known
from proreus.learning.learner import Learner, learner_at
from proreus.learning.run import Task, learn, resumed
from proreus.learning.run_folder import read_settings
from proreus.model.errors import UsageError, unknown_name
from proreus.policies.catalogue import AnyPolicy
from proreus.policies.checkpoint import CARD, is_checkpoint, read_card
from proreus.policies.plugins import ForeignPolicy
from proreus.workers.processes import Workers
from proreus.worlds import registered
from proreus.worlds import world as world_of

Named = str | AnyPolicy | type
"""A policy's name (a rule, `learned`, a checkpoint, a run, `mine.py:MyPolicy`), or a policy, or its class."""
Played = str | Scenario
"""A scenario, or its name."""


def worlds() -> dict[str, str]:
    """The worlds by name, with what they are about."""
    return {name: world_of(name).what for name in registered()}


def scenarios(world: str, data: Path | str | None = None) -> tuple[str, ...]:
    """Names of scenarios: those that are generated, and the datasets that the data folder holds."""
    datasets = world_of(world).datasets
    folder = data_dir(None if data is None else Path(data))
    here = [name for name in known(datasets, folder) if holds(datasets, name, folder)]
    return (*world_of(world).presets, *here)


def make_scenario(world: str, name: str = "", **flags: Any) -> Scenario:
    """A scenario by name, changed as the flags of the command line would change it: `starts=5`."""
    resolved_world = world_of(world)
    offered: list[str] = [field.name for field in fields(resolved_world.flags)]  # type: ignore[arg-type]
    for flag in flags:
        if flag not in offered:
            raise unknown_name("option", flag, offered)
    paths = {
        name for name, hint in get_type_hints(resolved_world.flags).items() if Path in (hint, *get_args(hint))
    }
    given = {
        flag: Path(value) if flag in paths and isinstance(value, str) else value
        for flag, value in flags.items()
    }
    return scenario_named(resolved_world, resolved_world.flags(**given), name or None)


def make_policy(world: str, name: str, *, seed: int = 0, **options: Any) -> AnyPolicy:
    """A policy of the world's main kind by name, with options as the command line has them."""
    catalogue = world_of(world).policies(None)
    return catalogue.make(name, _options(world_of(world), options), seed)


def load_policy(path: Path | str, *, seed: int = 0) -> AnyPolicy:
    """The policy of a checkpoint, or of a training run's best one; its card says which world it plays."""
    for folder in (Path(path), Path(path) / "best"):
        if is_checkpoint(folder):
            return make_policy(read_card(folder / CARD).world, str(folder), seed=seed)
    raise UsageError(f"{path} is neither a checkpoint nor a training run")


def simulate(
    world: str,
    scenario: Played = "",
    policy: Named = "",
    *,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    record: bool = False,
    hear: Hear | None = None,
) -> Simulated:
    """One policy over one scenario; `record` keeps what `plot` draws. `hear` is told how far it is."""
    resolved_world = world_of(world)
    chosen = make_scenario(world, scenario) if isinstance(scenario, str) else scenario
    catalogue = resolved_world.policies(chosen)
    name, made = _policy(policy or catalogue.main[0])
    playing = made or catalogue.make(name, _options(resolved_world, options or {}), seed)
    played = resolved_world.play(chosen, chosen.load(seed), playing, seed, hear=hear, picture=record)
    return Simulated(resolved_world, chosen.name, name, seed, played)


def compare(
    world: str,
    scenarios: Played | Sequence[Played] = "",
    policies: Named | Sequence[Named] | Mapping[str, Any] = (),
    *,
    seeds: int | Sequence[int] = 10,
    options: Mapping[str, Any] | None = None,
    processes: int = 0,
    ray: str = "",
    progress: Progress | None = None,
) -> Compared:
    """Policies against each other on the same work; policies given as objects are played in this process."""
    resolved_world = world_of(world)
    asked = _listed(scenarios, "load")
    chosen = tuple(
        make_scenario(world, scenario) if isinstance(scenario, str) else scenario for scenario in asked
    )
    wanted = _listed(policies, "decide")
    pairs = [_policy(policy) for policy in wanted or resolved_world.policies(chosen[0]).main]
    named = dict(pairs)
    if len(named) < len(pairs):
        raise UsageError("two policies have the same name: give each a `name`, or pass {name: policy}")
    own = {name: made for name, made in named.items() if made is not None}
    request = CompareRequest(
        scenarios=chosen,
        policies=tuple(named),
        options=_options(resolved_world, options or {}),
        seeds=tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds),
        processes=1 if own else processes or None,
        ray=ray,
        own=own,
    )
    return Compared(run_comparison(request, progress))


def train(
    world: str,
    scenarios: Played | Sequence[Played] = (),
    *,
    algo: str = "",
    out: Path | str = "",
    resume: Path | str = "",
    processes: int = 0,
    ray: str = "",
    **settings: Any,
) -> Trained:
    """Learn a policy, judged on work that training never sees; `settings` as the command line has them.

    The run is kept in `out` (default: runs/WORLD) and goes on with `resume`: after an interruption, or, with
    more `steps` (`generations`) in all than it has behind it, beyond its end.
    """
    resolved_world, workers = world_of(world), Workers(processes, ray)
    algorithm = algo or next(iter(resolved_world.learners), "")
    if resume:
        algorithm = str(read_settings(Path(resume), world)["algorithm"])
    if algorithm not in resolved_world.learners:
        raise unknown_name("algorithm", algorithm, resolved_world.learners)
    learner = learner_at(resolved_world.learners[algorithm])
    learner.check(workers)
    if resume:
        _configs(learner, settings)  # refuses unknown ones
        task = resumed(
            learner, Path(resume), workers, lambda entry: read_back(resolved_world, entry, None), settings
        )
    else:
        asked = _listed(scenarios, "load") or [*resolved_world.lessons]
        chosen = tuple(make_scenario(world, name) if isinstance(name, str) else name for name in asked)
        folder = Path(out or Path("runs") / world)
        task = Task(chosen, _configs(learner, settings), workers, folder, resume=False)
    summary: dict[str, Any] = {}
    for _ in learn(learner, task, lambda: False, summary.update):
        pass
    return Trained(task.folder, summary)


def _configs(learner: Learner, settings: Mapping[str, Any]) -> tuple[Any, ...]:
    """The learner's settings with some of them changed."""
    known = [field.name for config in learner.configs for field in fields(config)]
    for name in settings:
        if name not in known:
            raise unknown_name("setting", name, known)
    return tuple(
        replace(config, **{name: value for name, value in settings.items() if hasattr(config, name)})
        for config in learner.configs
    )


def _listed(given: Any, method: str) -> list[Any]:
    """One or several: a name, something that has the method, a sequence or a mapping by name of such."""
    if isinstance(given, Mapping):
        return list(given.items())
    return [given] if isinstance(given, str | type) or hasattr(given, method) else list(given)


def _policy(given: Any) -> tuple[str, AnyPolicy | None]:
    """(name, the policy itself where it was given as one)."""
    if isinstance(given, str):
        return given, None
    if isinstance(given, tuple):
        return given[0], ForeignPolicy(given[0], given[1], 0)
    if isinstance(given, type):
        return given.__name__, ForeignPolicy(given.__name__, given, 0)
    name = str(getattr(given, "name", type(given).__name__))
    return name, given if hasattr(given, "fresh") else ForeignPolicy(name, given, 0)


def _options(world: World, given: Mapping[str, Any]) -> Any:
    """The options of the world's policies; None: their defaults."""
    kind = world.policies(None).options
    if not given:
        return None
    if kind is None:
        raise UsageError(f"policies of the world {world.name!r} have no options")
    offered = [field.name for field in fields(kind)]
    for name in given:
        if name not in offered:
            raise unknown_name("option", name, offered)
    return replace(kind(), **given)
