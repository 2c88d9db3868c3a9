"""How true a shadow's savings are: predicted beside one controller, and measured by really playing the other.

    PROREUS_DATA=... PYTHONPATH=src python -m tests.worlds.inference.shadow_study OUT.json --seeds 3000 8

One controller scales (`--real`), another one is in its shadow (`--shadow`): what it would have held and kept
is reckoned as `serve scaler` reckons it. Then the other one really plays the same requests.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from proreus.model.estimate import estimate
from proreus.policies.catalogue import AnyPolicy
from proreus.worlds.inference.flags import InferenceFlags
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.scenarios import InferenceScenario
from proreus.worlds.inference.simulation.world import InferenceRun
from proreus.worlds.inference.state.observation import InferenceObservation
from proreus.worlds.inference.state.shadow_fleet import ShadowFleet

SCENARIOS = ("steady", "surge", "conversations", "azure", "drawn-ramps", "drawn-spikes", "colocated")


@dataclass(frozen=True)
class Prediction:
    """What a shadow says of a run, and what came of really playing it; GPU-hours and percent."""

    scenario: str
    seed: int
    real_hours: float
    would_hours: float
    shadow_hours: float
    """Predicted."""
    real_kept: float
    would_kept: float
    shadow_kept: float
    """Predicted."""
    modelled_kept: float
    """What the model says of the real controller."""

    @property
    def saving(self) -> tuple[float, float]:
        """(predicted, real) in percent of what the real controller holds."""
        return tuple(  # type: ignore[return-value]
            100.0 * (1.0 - hours / self.real_hours) for hours in (self.shadow_hours, self.would_hours)
        )


def shadowed(scenario: InferenceScenario, seed: int, real: AnyPolicy, shadow: AnyPolicy) -> Prediction:
    """One run, and another one."""
    fleet = ShadowFleet()
    run = _played(scenario, seed, real, fleet, shadow)
    outcome, would = run.outcome(), _played(scenario, seed, shadow).outcome()
    tally = fleet.tally
    gpus = outcome.measures["gpu_hours"] / max(tally.real / 3600.0, 1e-9)
    return Prediction(
        scenario.name,
        seed,
        outcome.measures["gpu_hours"],
        would.measures["gpu_hours"],
        tally.would / 3600.0 * gpus,
        outcome.measures["slo_attainment"],
        would.measures["slo_attainment"],
        100.0 * tally.would_met / tally.requests,
        100.0 * tally.modelled_met / tally.requests,
    )


def _played(
    scenario: InferenceScenario,
    seed: int,
    controller: AnyPolicy,
    fleet: ShadowFleet | None = None,
    shadow: AnyPolicy | None = None,
) -> InferenceRun:
    run, controller = scenario.start(scenario.load(seed), seed), controller.fresh(seed)
    shadow = None if shadow is None else shadow.fresh(seed)
    while (seen := run.next_decision()) is not None:
        if fleet is not None and shadow is not None:
            _shadow_decides(fleet, shadow, seen)
        run.apply(controller.decide(seen))
    return run


def _shadow_decides(fleet: ShadowFleet, shadow: AnyPolicy, seen: InferenceObservation) -> None:
    own = fleet.follow(seen)
    change = shadow.decide(own)
    fleet.scale(
        {pool.role: pool.coming + change.of(pool.role) + change.moved_into(pool.role) for pool in own.pools}
    )


def rows(predictions: Sequence[Prediction]) -> list[dict[str, object]]:
    """As results are kept: means over seeds with 95 % intervals."""
    made: list[dict[str, object]] = []
    for name in dict.fromkeys(prediction.scenario for prediction in predictions):
        mine = [prediction for prediction in predictions if prediction.scenario == name]
        predicted, really = np.array([prediction.saving for prediction in mine]).T
        columns = {
            ("predicted", "saved"): predicted,
            ("really", "saved"): really,
            ("predicted", "slo_attainment"): np.array([one.shadow_kept for one in mine]),
            ("really", "slo_attainment"): np.array([one.would_kept for one in mine]),
            ("the real one, modelled", "slo_attainment"): np.array([one.modelled_kept for one in mine]),
            ("the real one", "slo_attainment"): np.array([one.real_kept for one in mine]),
        }
        for (policy, measure), values in columns.items():
            mean = asdict(estimate(values.tolist()))
            made.append({"scenario": name, "policy": policy, "measure": measure, "unit": "%", **mean})
    return made


def table(predictions: Sequence[Prediction]) -> str:
    """A row for each scenario, means with 95 % intervals."""
    lines = [
        "scenario         GPU-hours saved, %        served as promised, %",
        "                 predicted    really       real  would  predicted  model of real",
    ]
    for name in dict.fromkeys(prediction.scenario for prediction in predictions):
        mine = [prediction for prediction in predictions if prediction.scenario == name]
        predicted, really = np.array([prediction.saving for prediction in mine]).T
        kept = np.array(
            [(one.real_kept, one.would_kept, one.shadow_kept, one.modelled_kept) for one in mine]
        ).mean(axis=0)
        lines.append(
            f"{name:15} {_mean(predicted):>12} {_mean(really):>12}   "
            f"{kept[0]:6.2f} {kept[1]:6.2f} {kept[2]:8.2f} {kept[3]:11.2f}"
        )
    errors = [prediction.saving[0] - prediction.saving[1] for prediction in predictions]
    promises = [prediction.shadow_kept - prediction.would_kept for prediction in predictions]
    lines.append(
        f"error of all {len(errors)} predictions: savings {np.mean(errors):+.1f} points on average, "
        f"{np.mean(np.abs(errors)):.1f} in size;"
    )
    lines.append(
        f"promises {np.mean(promises):+.2f} points on average, {np.mean(np.abs(promises)):.2f} in size"
    )
    return "\n".join(lines)


def _mean(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    mean = estimate(values.tolist())
    return f"{mean.mean:.1f} ± {mean.half or 0.0:.1f}"


def main() -> None:
    """Play, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--real", default="predictive")
    parser.add_argument("--shadow", default="learned")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--seeds", type=int, nargs=2, default=(3000, 8), metavar=("FIRST", "COUNT"))
    asked = parser.parse_args()
    real, shadow = POLICIES.make(asked.real, seed=0), POLICIES.make(asked.shadow, seed=0)
    predictions = []
    for name in asked.scenarios.split(","):
        scenario = InferenceFlags(scenario=name).chosen()
        for seed in range(asked.seeds[0], sum(asked.seeds)):
            predictions.append(shadowed(scenario, seed, real, shadow))
            sys.stderr.write(f"{name} {seed}\n")
    seeds = " ".join(map(str, asked.seeds))
    command = f"PYTHONPATH=src python -m tests.worlds.inference.shadow_study OUT --seeds {seeds}"
    kept = {"command": command, "world": "inference", "rows": rows(predictions)}
    asked.out.write_text(json.dumps(kept, indent=1) + "\n")
    sys.stdout.write(f"{table(predictions)}\n")


if __name__ == "__main__":
    main()
