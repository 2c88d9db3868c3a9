"""Single situations whose outcome can be reckoned by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from proreus.model.errors import UsageError
from proreus.worlds.inference.datasets.generator import Lengths, Load, generate_in_parts
from proreus.worlds.inference.model.cluster import ClusterSpec, Compatibility, Group
from proreus.worlds.inference.model.requests import RequestTrace, trace_of
from proreus.worlds.inference.model.start_up import starting_within
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cluster import InferenceCluster
from tests.worlds.inference.clusters import MODEL, TABLE, TIMINGS, alike, kind_of, requests, spec_of


def of(*rows: tuple[float, int, int]) -> RequestTrace:
    """Requests: arrival, prompt, output."""
    arrival, prompt, output = (np.array(column) for column in zip(*rows, strict=True))
    return trace_of("by hand", arrival, prompt.astype(np.int32), output.astype(np.int32))


def ended(cluster: InferenceCluster) -> dict[int, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Rows of the log by request."""
    cluster.advance()
    return {int(row[c.L_REQUEST]): row for row in cluster.rows()}


@pytest.mark.parametrize(("private", "together"), [(True, 1.0), (False, 2.0)])
def test_transfers_share_the_link_of_their_instance(private: bool, together: float) -> None:
    """Two prompts of 50 tokens are computed together, 0.05 s; 50 tokens take 0.1 s of a link of their own."""
    kind = kind_of("splitwise", "table", 1_000)
    spec = spec_of(kind, "kv_jsq", (1, 1), Compatibility(private_links=private))
    trace = of((0.0, 1, 2), (0.001, 50, 2), (0.002, 50, 2))
    rows = ended(InferenceCluster(spec, trace, TIMINGS))
    first = 0.02 + 0.05  # the first request has the instance to itself
    for number in (1, 2):
        assert rows[number][c.L_FIRST] == pytest.approx(first)
        assert rows[number][c.L_SHIPPED] == pytest.approx(first + 0.1 * together)


def test_a_transfer_beside_another_slows_it_down_only_while_it_lasts() -> None:
    kind = kind_of("splitwise", "table", 1_000)
    spec = spec_of(kind, "kv_jsq", (1, 1))
    rows = ended(InferenceCluster(spec, of((0.0, 100, 2), (0.06, 1, 2)), TIMINGS))
    # 100 tokens: computed at 0.05, 0.2 s of a link; 1 token: computed at 0.08, 0.002 s of a link.
    assert rows[1][c.L_SHIPPED] == pytest.approx(0.08 + 0.004)
    assert rows[0][c.L_SHIPPED] == pytest.approx(0.05 + 0.2 + 0.002)


def test_models_are_served_by_their_own_instances() -> None:
    first = kind_of("splitwise", "table", 400)
    second = replace(first, name="two", model=replace(MODEL, name="other", layers=2))
    spec = ClusterSpec((first, second), (Group("one", "mixed", 2), Group("two", "mixed", 1)), "jsq")
    trace = requests(4)
    trace = replace(trace, model=(np.arange(len(trace)) % 2).astype(np.int32))
    rows = ended(InferenceCluster(spec, trace, TIMINGS))
    assert len(rows) == len(trace)
    for number, row in rows.items():
        assert row[c.L_TOKEN_BY] in ((2,) if number % 2 else (0, 1))


def test_slower_machines_get_less_of_a_shared_queue() -> None:
    fast = kind_of("splitwise", "table", 400)
    slow = replace(fast, name="slow", timing="slow")
    timings = {
        **TIMINGS,
        "slow": TABLE._replace(prompt_time=TABLE.prompt_time * 4, token_time=TABLE.token_time * 4),
    }
    spec = ClusterSpec((fast, slow), (Group("one", "mixed", 1), Group("slow", "mixed", 1)), "token_jsq")
    rows = ended(InferenceCluster(spec, requests(5, 200, rate=30.0), timings))
    by = np.bincount([int(row[c.L_TOKEN_BY]) for row in rows.values()], minlength=2)
    assert by[0] > 1.3 * by[1] > 0


def test_without_an_instance_requests_wait_at_the_router_or_are_rejected() -> None:
    spec = spec_of(kind_of("splitwise", "table", 400), "jsq", (0, 0))
    cluster = InferenceCluster(spec, requests(6, 10), TIMINGS, 0, 2)
    assert cluster.advance() and len(cluster.rows()) == 0
    cluster.order("one", "mixed", starting_within(1.0))
    assert cluster.advance() and (cluster.rows()[:, c.L_STATUS] == c.COMPLETED).sum() == 10
    limited = InferenceCluster(replace(spec, router_limit=4), requests(6, 10), TIMINGS, 0, 2)
    limited.advance()
    assert (limited.rows()[:, c.L_STATUS] == c.REJECTED).sum() == 6


@pytest.mark.parametrize(("engine", "timing"), [("splitwise", "table"), ("chunked", "layers")])
def test_what_no_instance_could_hold_is_rejected(engine: str, timing: str) -> None:
    kind = kind_of(engine, timing, 100)  # type: ignore[arg-type]
    rows = ended(InferenceCluster(spec_of(kind, "jsq", (1, 0)), of((0.0, 90, 20), (0.1, 40, 20)), TIMINGS))
    assert [rows[number][c.L_STATUS] for number in (0, 1)] == [c.REJECTED, c.COMPLETED]


def test_roles_and_names_that_cannot_be_are_refused() -> None:
    kind = kind_of("splitwise", "table", 100)
    with pytest.raises(UsageError, match="has no prompt instances"):
        InferenceCluster(ClusterSpec((kind,), (Group("one", "prompt", 1),), "jsq"), requests(0), TIMINGS)
    with pytest.raises(UsageError, match="unknown kind of instance 'two'"):
        InferenceCluster(ClusterSpec((kind,), (Group("two", "mixed", 1),), "jsq"), requests(0), TIMINGS)
    with pytest.raises(UsageError, match="unknown timing"):
        InferenceCluster(ClusterSpec((kind,), (Group("one", "mixed", 1),), "jsq"), requests(0), {})


def test_a_lost_instance_gives_its_requests_back_with_what_they_had() -> None:
    kind = kind_of("splitwise", "table", 400)
    cluster = InferenceCluster(spec_of(kind, "jsq", (2, 0)), of((0.0, 50, 50)), TIMINGS)
    cluster.advance(0.3)
    cluster.lose(int(cluster.run.slot[cluster.run.slot[:, c.PHASE] != c.FREE][0, c.PROMPT_AT]))
    row = ended(cluster)[0]
    assert (row[c.L_STATUS], row[c.L_LOSSES], row[c.L_OUTPUT]) == (c.COMPLETED, 1, 50)
    assert row[c.L_FIRST] < 0.1  # its user has had the first token all along
    whole = ended(InferenceCluster(spec_of(kind, "jsq", (2, 0)), of((0.0, 50, 50)), TIMINGS))[0]
    assert row[c.L_ENDED] > whole[c.L_ENDED]
    assert row[c.L_ENDED] < 0.3 + whole[c.L_ENDED]  # but does not wait for all others again


def test_requests_that_come_in_parts_fare_as_if_they_came_at_once() -> None:
    spec = spec_of(kind_of("splitwise", "table", 400), "mixed_pool")
    load = Load(rate=15.0, seconds=6.0, lengths=Lengths(3.0, 0.6, 2.5, 0.5, 120, 60))
    parts = list(generate_in_parts("parts", load, 3, 2.0))
    arrival, prompt, output = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("arrival", "prompt", "output")
    )
    whole = InferenceCluster(spec, trace_of("whole", arrival, prompt, output), TIMINGS)
    cluster = InferenceCluster(spec, iter(parts), TIMINGS)
    for inference_cluster in (whole, cluster):
        inference_cluster.advance(3.0)
        inference_cluster.lose(0)
        inference_cluster.advance()
    assert len(parts) == 3 and (cluster.rows()[:, c.L_STATUS] == c.COMPLETED).any()
    assert np.array_equal(whole.rows(), cluster.rows(), equal_nan=True)


def test_parts_out_of_order_or_with_blocks_are_refused() -> None:
    spec, trace = spec_of(kind_of("splitwise", "table", 400), "mixed_pool"), requests(1)
    with pytest.raises(ValueError, match="before the end of the one before"):
        InferenceCluster(spec, iter([trace, trace]), TIMINGS).advance()
    with pytest.raises(UsageError, match="in parts"):
        InferenceCluster(spec, iter([alike(1), alike(2)]), TIMINGS)
