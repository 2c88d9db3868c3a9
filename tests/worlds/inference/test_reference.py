"""The kernels do what plain Python does, one request after the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.worlds.inference.model.requests import trace_of
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cluster import InferenceCluster
from tests.worlds.inference.clusters import TABLE, TIMINGS, kind_of, layers, requests, spec_of
from tests.worlds.inference.reference import Served, Splitwise, serve_chunked


def served_by(cluster: InferenceCluster) -> Served:
    """What the kernels did."""
    cluster.advance()
    rows = cluster.rows()
    assert (rows[:, c.L_STATUS] == c.COMPLETED).all()
    return {int(row[c.L_REQUEST]): (float(row[c.L_FIRST]), float(row[c.L_ENDED])) for row in rows}


def assert_same(found: Served, expected: Served) -> None:
    """To a billionth of a second."""
    assert set(found) == set(expected)
    numbers = sorted(expected)
    np.testing.assert_allclose(
        [found[number] for number in numbers], [expected[number] for number in numbers], atol=1e-9, rtol=0
    )


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 100_000),
    room=st.integers(200, 900),
    batch=st.integers(2, 8),
    tokens=st.sampled_from((60, 130, 400)),
)
def test_whole_prompts_with_preemption(seed: int, room: int, batch: int, tokens: int) -> None:
    kind, trace = kind_of("splitwise", "table", room, batch, tokens), requests(seed, 40)
    found = served_by(InferenceCluster(spec_of(kind, "jsq", (1, 0)), trace, TIMINGS))
    assert_same(found, Splitwise(kind, TABLE).serve(trace))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 100_000),
    room=st.integers(200, 900),
    batch=st.integers(2, 8),
    tokens=st.sampled_from((10, 60, 400)),
    whole=st.booleans(),
)
def test_chunked_prompts_over_pages(seed: int, room: int, batch: int, tokens: int, whole: bool) -> None:
    kind, trace = kind_of("chunked", "layers", room, batch, tokens), requests(seed, 40)
    kind = replace(kind, reserves_prompt=whole)
    found = served_by(InferenceCluster(spec_of(kind, "jsq", (1, 0)), trace, TIMINGS))
    assert_same(found, serve_chunked(trace, kind, layers()))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 100_000),
    room=st.integers(200, 900),
    batch=st.integers(2, 8),
    tokens=st.sampled_from((10, 60, 400)),
    in_step=st.integers(1, 3),
)
def test_batches_that_are_composed_ahead_by_instances_in_step(
    seed: int, room: int, batch: int, tokens: int, in_step: int
) -> None:
    kind, trace = kind_of("chunked", "layers", room, batch, tokens), requests(seed, 40)
    kind = replace(kind, in_step=in_step, plans_ahead=seed % 2 == 0, reserves_prompt=seed % 3 == 0)
    found = served_by(InferenceCluster(spec_of(kind, "jsq", (in_step, 0)), trace, TIMINGS))
    assert_same(found, serve_chunked(trace, kind, layers()))


@pytest.mark.parametrize("engine", ["splitwise", "chunked"])
def test_the_cases_are_hard_ones(engine: str) -> None:
    """Memory is short and requests are preempted, or nothing above was tried."""
    preempted = 0.0
    for seed in range(20):
        kind = (
            kind_of("splitwise", "table", 900, 8, 60)
            if engine == "splitwise"
            else kind_of("chunked", "layers", 250)
        )
        cluster = InferenceCluster(spec_of(kind, "jsq", (1, 0)), requests(seed, 40), TIMINGS)
        cluster.advance()
        preempted += cluster.rows()[:, c.L_PREEMPTIONS].sum()
    assert preempted > 20


def test_a_prompt_that_fits_only_in_part_waits_where_prompts_are_let_in_whole() -> None:
    """Its beginning would take the pages that the first one decodes into."""
    trace = trace_of("two", np.array([0.0, 0.1]), np.array([40, 100]), np.array([50, 5]))
    early, whole = (
        InferenceCluster(spec_of(replace(kind, reserves_prompt=reserves), "jsq", (1, 0)), trace, TIMINGS)
        for kind in (kind_of("chunked", "layers", 120, batch=8, tokens=20),)
        for reserves in (False, True)
    )
    rows = []
    for cluster in (early, whole):
        cluster.advance()
        found = cluster.rows()
        rows.append(found[np.argsort(found[:, c.L_REQUEST])])
    assert rows[0][1, c.L_STARTED] < rows[0][0, c.L_ENDED] and rows[0][1, c.L_PREEMPTIONS] > 0
    assert rows[1][1, c.L_STARTED] >= rows[1][0, c.L_ENDED] and rows[1][:, c.L_PREEMPTIONS].sum() == 0
