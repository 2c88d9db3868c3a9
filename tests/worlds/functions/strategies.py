"""Small demands, as hypothesis draws them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from proreus.worlds.functions.model import Demand, Function, FunctionsTerms, NodeKind

TERMS = FunctionsTerms(
    nodes=(
        NodeKind(2, 1_000, 1_000, 2_000, 100, 86_000),
        NodeKind(1, 2_000, 1_500, 3_000, 100, 172_000),
    ),
    patience=4.0,
    queue=4,
)
"""Three nodes that are soon full."""

functions = st.builds(
    Function,
    name=st.just("f"),
    cpu=st.sampled_from((200, 500, 1_000)),
    memory=st.sampled_from((100, 400, 1_000)),
    cpu_use=st.sampled_from((0, 300, 1_000)),
    net=st.sampled_from((0, 500, 2_500)),
    disk=st.sampled_from((0, 30, 120)),
    concurrency=st.sampled_from((1, 2, 3)),
    standard=st.sampled_from((0.5, 1.0, 2.0)),
    kind=st.sampled_from((0, 1, 2)),
)


@st.composite
def demands(draw: Any, most: int = 40) -> Demand:
    """A few functions whose requests come at round times, so that many things happen at one moment."""
    known = tuple(draw(st.lists(functions, min_size=1, max_size=4)))
    count = draw(st.integers(1, most))
    times = draw(st.lists(st.integers(0, 24), min_size=count, max_size=count))
    halves = st.lists(st.integers(0, 6), min_size=count, max_size=count)
    kinds = draw(st.lists(st.integers(0, len(known) - 1), min_size=count, max_size=count))
    return Demand(
        known,
        np.sort(np.array(times, dtype=np.float64)) / 2.0,
        np.array(kinds, dtype=np.int32),
        np.array(draw(halves), dtype=np.float64) / 2.0,
        np.array(draw(halves), dtype=np.float64) / 2.0,
        14.0,
    )
