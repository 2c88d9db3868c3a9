"""Puts training runs over windows together: each becomes an expert for a demand, at a price of migrations.

An expert stands where the demand of its training windows is. Every demand needs a run at each of the prices,
since a user's wish lies between two of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from proreus.kernels.arrays import F64
from proreus.learning.run_folder import SETTINGS, read_settings, scenarios_of
from proreus.model.errors import UsageError
from proreus.policies.checkpoint import Card, Checkpoint, load_checkpoint
from proreus.worlds.rebalance.windows.encoding.moves import VERSION
from proreus.worlds.rebalance.windows.policies.adaptive import OBJECTIVES, read_experts
from proreus.worlds.rebalance.windows.policies.catalogue import ADAPTS, KIND, MOVE_POLICIES, move_weights
from proreus.worlds.rebalance.windows.scenarios import WindowScenario, window_scenario_from_json
from proreus.worlds.rebalance.windows.simulation.world import WindowsOptions
from proreus.worlds.rebalance.windows.training.demand import mean_figures


@dataclass
class _Expert:
    stands: F64
    weights: dict[float, F64] = field(default_factory=dict)
    """By price."""


def combine(sources: Sequence[str], data: Path | None) -> Checkpoint:
    """A policy that adapts, of training runs and of others that adapt (`learned`); what is told later for the
    same demand and price takes the place of what was told before. data: the folder of datasets."""
    experts: dict[str, _Expert] = {}
    for source in sources:
        folder = MOVE_POLICIES.folder_of(source)
        if folder is None:
            raise UsageError(f"{source!r}: there is neither a checkpoint nor a training run")
        checkpoint = load_checkpoint(folder, VERSION)
        match checkpoint.card.kind:
            case kind if kind == ADAPTS:
                _take_over(experts, checkpoint, folder)
            case kind if kind == KIND:
                _add(experts, Path(source), move_weights(checkpoint, folder), data)
            case other:
                raise UsageError(f"{source}: a policy of kind {other!r} is no expert; runs of es are")
    return _together(experts)


def _take_over(experts: dict[str, _Expert], checkpoint: Checkpoint, folder: Path) -> None:
    theirs = read_experts(checkpoint, folder)
    for k, name in enumerate(theirs.names):
        expert = experts.setdefault(name, _Expert(theirs.stands[k]))
        for p, price in enumerate(theirs.prices.tolist()):
            expert.weights[price] = theirs.weights[p, k]


def _add(experts: dict[str, _Expert], run: Path, weights: F64, data: Path | None) -> None:
    if not (run / SETTINGS).exists():
        raise UsageError(f"{run}: name the folder of the training run, which says what it was trained on")
    settings = read_settings(run, "rebalance")
    price = float(settings["config"].get("price", 0.0))
    if price <= 0.0:
        raise UsageError(f"{run}: a run with --price above 0 is an expert, and this one has {price:g}")

    def read(entry: Any) -> WindowScenario:
        try:
            return window_scenario_from_json(entry, data)
        except (KeyError, TypeError, UsageError) as error:
            raise ValueError(f"not a scenario: {error}") from error

    scenarios = scenarios_of(settings, run, read)
    name = "+".join(_demand(scenario) for scenario in scenarios)
    if name not in experts:
        experts[name] = _Expert(np.mean([mean_figures(scenario) for scenario in scenarios], axis=0))
    experts[name].weights[price] = weights


def _demand(scenario: WindowScenario) -> str:
    """The name of a demand: that of the scenario, and what a user changed about it."""
    entry = scenario.to_json()
    usual = asdict(WindowsOptions(service=scenario.options.service))
    options = entry.get("options", usual)
    changed = [f"{name} {value}" for name, value in options.items() if value != usual[name]]
    if scenario.file is not None and "requests" in entry:
        changed.insert(0, str(entry["requests"]))
    return ", ".join((scenario.name, *changed))


def _together(experts: dict[str, _Expert]) -> Checkpoint:
    prices = sorted({price for expert in experts.values() for price in expert.weights})
    for name, expert in experts.items():
        missing = [f"{price:g}" for price in prices if price not in expert.weights]
        if missing:
            raise UsageError(f"{name}: there is no run with --price {', '.join(missing)}, as others have")
    card = Card(
        world="rebalance",
        kind=ADAPTS,
        algorithm="experts",
        encoding=VERSION,
        config={"experts": list(experts), "objectives": list(OBJECTIVES), "prices": prices},
        trained_on=tuple(experts),
    )
    tensors = {
        "stands": np.array([expert.stands for expert in experts.values()]),
        "prices": np.array(prices),
        "weights": np.array([[expert.weights[price] for expert in experts.values()] for price in prices]),
    }
    return Checkpoint(card, tensors)
