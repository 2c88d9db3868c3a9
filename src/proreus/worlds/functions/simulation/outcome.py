"""What a run came to: measures, one row for each request that is over, and where everything stands."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from proreus.contract.simulation import Outcome
from proreus.kernels.arrays import F64
from proreus.model.measure import Measure, by_name
from proreus.worlds.functions.model import Demand
from proreus.worlds.functions.state import columns as c
from proreus.worlds.functions.state.columns import FunctionsWork, Runs

MEASURES = by_name(
    # beta x mean share of RFRT between its bounds + (1 - beta) x share of the cost of all nodes
    Measure("objective", "%", "lower", "Response time and cost together", "objective"),
    Measure("rfrt", "", "lower", "Response time in standard response times, mean (at most 40 each)", "RFRT"),
    Measure("rfrt_p99", "", "lower", "The same, 99th percentile", "RFRT p99"),
    Measure("cost", "$", "lower", "Price of nodes while they hold instances", "cost"),
    Measure("cold", "%", "lower", "Requests that waited for a cold start", "cold"),
    Measure("dropped", "%", "lower", "Requests that were dropped", "dropped"),
    Measure("slo", "%", "higher", "Requests within the objective for response time", "SLO"),
    Measure("active", "", "lower", "Nodes active on average", "active"),
    Measure("starts", "", "lower", "Instances started", "starts"),
    Measure("requests", "", "higher", "Requests that came", "requests"),
    Measure("decisions_per_s", "1/s", "higher", "Decision rate", "rate"),
)
COLUMNS = ("request", "function", "arrival", "began", "ended", "node", "rfrt")


def active_seconds(runs: Runs, lane: int = 0) -> F64:
    """[N] that each node was active so far."""
    now = runs.figure[lane, c.NOW]
    return runs.active[lane] + np.where(runs.node[lane, :, c.HOLDS] > 0, now - runs.since[lane], 0.0)


def objective_of(work: FunctionsWork, runs: Runs, lane: int = 0) -> float:
    """Of a run so far, in %: minus the sum of what its decisions were worth."""
    episode = int(runs.tally[lane, c.EPISODE])
    requests = int(work.first[episode + 1] - work.first[episode])
    full = float(work.term[c.FULL_PRICE] * work.horizon[episode])
    beta, share = float(work.term[c.BETA]), float(runs.figure[lane, c.SHARE]) / requests
    cost = float(runs.figure[lane, c.PAID]) / full if full > 0.0 else 0.0
    return 100.0 * (beta * share + (1.0 - beta) * cost)


def measures_of(demand: Demand, work: FunctionsWork, runs: Runs) -> dict[str, float]:
    """Those that make sense for the run so far."""
    tally, figure = runs.tally[0], runs.figure[0]
    over = int(tally[c.SERVED] + tally[c.DROPPED])
    found = {
        "objective": objective_of(work, runs),
        "cost": float(figure[c.PAID]) / c.MICRO_HOURS,
        "starts": float(tally[c.STARTS]),
        "requests": float(tally[c.CAME]),
    }
    if figure[c.NOW] > 0.0:
        found["active"] = float(active_seconds(runs).sum() / figure[c.NOW])
    if tally[c.CAME]:
        found["cold"] = 100.0 * float(tally[c.COLD] / tally[c.CAME])
        found["dropped"] = 100.0 * float(tally[c.DROPPED] / tally[c.CAME])
    if over:
        found["rfrt"] = float(figure[c.RFRT]) / over
        found["slo"] = 100.0 * float(tally[c.IN_TIME]) / over
        found["rfrt_p99"] = float(np.percentile(_rfrts(demand, runs), 99.0))
    return {name: found[name] for name in MEASURES if name in found}


def _rfrts(demand: Demand, runs: Runs) -> F64:
    """Of requests that are over, those dropped included."""
    served = runs.status[0] == c.DONE
    standard = np.array([function.standard for function in demand.functions])[demand.function[served]]
    found = (runs.ended[0, served] - demand.arrival[served]) / standard
    dropped = np.full(int((runs.status[0] == c.GIVEN_UP).sum()), c.CLIP)
    return np.concatenate([np.minimum(found, c.CLIP), dropped])


def outcome_of(demand: Demand, work: FunctionsWork, runs: Runs) -> Outcome:
    """The run so far."""
    rows = []
    for request in np.flatnonzero(runs.status[0] >= c.DONE).tolist():
        function = demand.functions[int(demand.function[request])]
        arrival = float(demand.arrival[request])
        if runs.status[0, request] == c.DONE:
            ended = float(runs.ended[0, request])
            fate: tuple[object, ...] = (
                float(runs.began[0, request]),
                ended,
                int(runs.server[0, request]),
                (ended - arrival) / function.standard,
            )
        else:
            fate = ("", "", "dropped", c.CLIP)
        rows.append((request, function.name, arrival, *fate))
    return Outcome(measures_of(demand, work, runs), COLUMNS, rows, lambda: _export(demand, work, runs))


def _export(demand: Demand, work: FunctionsWork, runs: Runs) -> Mapping[str, object]:
    tally = runs.tally[0]
    return {
        "now": float(runs.figure[0, c.NOW]),
        "requests": {
            "came": int(tally[c.CAME]),
            "served": int(tally[c.SERVED]),
            "dropped": int(tally[c.DROPPED]),
            "waiting": int(tally[c.QUEUED] + tally[c.HELD]),
        },
        "instances": int(tally[c.LIVE]),
        "nodes": [
            {"active_s": float(seconds), "price": float(price) / 1e6, "instances": int(holds)}
            for seconds, price, holds in zip(
                active_seconds(runs), work.price, runs.node[0, :, c.HOLDS], strict=True
            )
        ],
        "functions": [function.name for function in demand.functions],
    }
