"""How good the forecast of loads is: pinball loss and coverage beside rules, on loads that it never saw.

    PYTHONPATH=src python -m tests.worlds.inference.forecast_study

What is forecast is the load when a start of 120 s is over (drawn loads: of 30 to 600 s). A rule says one
number; its quantiles are that number and the quantiles of its errors on drawn loads.
"""

from __future__ import annotations

import sys

import numpy as np

from proreus.policies.checkpoint import load_checkpoint
from proreus.worlds.inference.encoding.load_history import SIZE, VERSION
from proreus.worlds.inference.policies.catalogue import SHIPPED
from proreus.worlds.inference.scenarios import parse
from proreus.worlds.inference.state.quantile_forecast import forecaster_of
from proreus.worlds.inference.training.load_forecast import (
    Moments,
    drawn_moments,
    kept_back_moments,
    moment_of,
    scores,
)

_START = 120.0
_INTERVAL = 10.0


def recorded_moments(name: str, seeds: range) -> Moments:
    """Of the requests of a scenario's part `test`."""
    scenario, steps = parse(name, None), _START / _INTERVAL + 1.0
    found = []
    for seed in seeds:
        arrival = scenario.load(seed).arrival
        count = int(arrival[-1] // _INTERVAL)
        load = np.bincount((arrival // _INTERVAL).astype(np.int64), minlength=count)[:count] / _INTERVAL
        moments = range(6, count - int(3 * steps) - 3, max(count // 120, 1))
        found += [moment_of(load, moment, steps) for moment in moments]
    features, came, rules = zip(*found, strict=True)
    return Moments(np.array(features), np.array(came), np.array(rules))


def main() -> None:
    forecaster = forecaster_of(load_checkpoint(SHIPPED, VERSION).tensors, SIZE)
    learned_from = drawn_moments(2_000, 11)
    held_out = {
        "drawn, families trained on": drawn_moments(1_000, 12),
        "drawn, families kept back": kept_back_moments(900, 13),
        "surge": recorded_moments("surge", range(3_000, 3_010)),
        "azure": recorded_moments("azure", range(3_000, 3_005)),
        "servegen": recorded_moments("servegen", range(5)),
    }
    for name, moments in held_out.items():
        for forecast, score in scores(forecaster, learned_from, moments).items():
            shares = ", ".join(f"{100.0 * share:.1f}" for share in score.coverage)
            sys.stdout.write(f"{name} | {forecast} | {score.pinball:.4f} | {shares}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
