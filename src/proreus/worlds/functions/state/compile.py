"""From demands to columns, and the empty runs over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from proreus.kernels.structs import pack
from proreus.model.errors import UsageError
from proreus.worlds.functions.model import Demand, FunctionsTerms
from proreus.worlds.functions.state import columns as c
from proreus.worlds.functions.state.columns import FunctionsWork, Runs
from proreus.worlds.functions.state.idle_histogram import BINS
from proreus.worlds.functions.state.spares import places_for, words_for

Keeper = Literal["asked", "fixed", "histogram"]
KEEPERS: dict[str, int] = {"asked": c.ASKED, "fixed": c.FIXED, "histogram": c.BY_HISTOGRAM}
USUAL_KEEP = 60.0
"""Seconds: what Huawei's platform does."""
_MOST_CELLS = 400_000_000


def compile_demands(
    demands: Sequence[Demand], terms: FunctionsTerms, keeper: Keeper = "asked", kept: float = USUAL_KEEP
) -> FunctionsWork:
    """The columns of episodes one behind the other."""
    functions = [function for demand in demands for function in demand.functions]
    need = [
        (one.cpu, one.memory, one.net, one.disk, one.cpu_use, one.concurrency, one.kind) for one in functions
    ]
    price = terms.column("price")
    return pack(
        FunctionsWork(
            first=_starts([len(demand) for demand in demands]),
            first_function=_starts([len(demand.functions) for demand in demands]),
            arrival=np.concatenate([demand.arrival for demand in demands]),
            function=np.concatenate([demand.function for demand in demands]),
            seconds=np.concatenate([demand.seconds for demand in demands]),
            cold=np.concatenate([demand.cold for demand in demands]),
            need=np.array(need, dtype=np.int64),
            standard=np.array([one.standard for one in functions]),
            horizon=np.array([demand.horizon for demand in demands]),
            capacity=np.stack([terms.column(name) for name in ("cpu", "memory", "net", "disk")], axis=1),
            price=price,
            term=np.array(
                [
                    terms.patience,
                    terms.beta,
                    terms.rfrt_low,
                    terms.rfrt_high,
                    terms.slo,
                    kept,
                    float(price.sum()),
                ]
            ),
            option=np.array([terms.queue, KEEPERS[keeper]], dtype=np.int64),
        )
    )


def _starts(sizes: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def new_runs(work: FunctionsWork, lanes: int = 1, *, logged: bool = True) -> Runs:
    """Room for so many runs; `logged`: what happened to every request is kept."""
    nodes, functions = work.price.size, int(np.diff(work.first_function).max())
    requests = int(np.diff(work.first).max())
    least = work.need[:, [c.CPU, c.MEMORY]].min(axis=0)
    instances = int((work.capacity[:, [c.CPU, c.MEMORY]] // least).min(axis=1).sum())
    # Every instance was started for a request that was there.
    instances = max(min(instances, requests), 1)
    places = places_for(instances)
    cells = lanes * (functions * (nodes + places // 64) + instances * 15 + c.DAYS + requests * 3)
    if cells > _MOST_CELLS:
        raise UsageError("so many lanes, nodes, functions and requests need too much memory")
    kept = requests if logged else 0
    return pack(
        Runs(
            tally=np.zeros((lanes, c.TALLIES), dtype=np.int64),
            figure=np.zeros((lanes, c.FIGURES)),
            mark=np.zeros((lanes, c.FIGURES)),
            node=np.zeros((lanes, nodes, c.NODE_COLUMNS), dtype=np.int64),
            since=np.zeros((lanes, nodes)),
            active=np.zeros((lanes, nodes)),
            replicas=np.zeros((lanes, nodes, functions), dtype=np.int32),
            of=np.zeros((lanes, functions, c.FUNCTION_COLUMNS), dtype=np.int64),
            rate=np.zeros((lanes, functions, c.FUNCTION_FIGURES)),
            gaps=np.zeros((lanes, functions, BINS), dtype=np.int32),
            instance=np.zeros((lanes, instances, c.INSTANCE_COLUMNS), dtype=np.int64),
            crew=np.zeros((lanes, places), dtype=np.int32),
            spare=np.zeros((lanes, functions, words_for(places)), dtype=np.uint64),
            wake=np.zeros((lanes, instances)),
            warming=np.zeros((lanes, instances), dtype=np.int32),
            resting=np.zeros((lanes, instances), dtype=np.int32),
            noted=np.zeros((lanes, instances), dtype=np.bool_),
            free=np.zeros((lanes, instances), dtype=np.int32),
            status=np.zeros((lanes, requests), dtype=np.int8),
            link=np.zeros((lanes, requests), dtype=np.int32),
            due=np.zeros((lanes, requests)),
            calendar=np.zeros((lanes, c.DAYS), dtype=np.int32),
            marked=np.zeros((lanes, c.DAYS // 64 + 1), dtype=np.uint64),
            host=np.zeros((lanes, requests), dtype=np.int32),
            began=np.zeros((lanes, kept)),
            ended=np.zeros((lanes, kept)),
            server=np.zeros((lanes, kept), dtype=np.int32),
        )
    )
