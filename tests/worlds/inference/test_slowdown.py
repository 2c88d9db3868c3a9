"""Slowdowns: 1 for who is alone, and what the authors of the table divided by where that is the timing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from proreus.worlds.inference.model.cluster import ClusterSpec, Engine, Group, InstanceKind
from proreus.worlds.inference.model.hardware import gpu
from proreus.worlds.inference.model.requests import trace_of
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cluster import InferenceCluster
from proreus.worlds.inference.simulation.slowdown import slowdowns
from tests.worlds.inference.clusters import MODEL, TIMINGS, kind_of, requests, spec_of


@pytest.mark.parametrize("engine", ["chunked", "splitwise", "orca"])
def test_who_is_alone_is_not_slow(engine: Engine) -> None:
    kind = replace(kind_of(engine, "layers", 8_000), token_limit=200)
    prompt, output = np.array([3, 150, 700, 90], np.int32), np.array([40, 1, 9, 300], np.int32)
    if engine == "splitwise":
        prompt = np.minimum(prompt, 200).astype(np.int32)
    trace = trace_of("far apart", np.array([0.0, 1_000.0, 2_000.0, 3_000.0]), prompt, output)
    cluster = InferenceCluster(spec_of(kind, "jsq", (1, 0)), trace, TIMINGS)
    cluster.advance()
    found = slowdowns(cluster, TIMINGS, cluster.rows())
    assert found["ttft"] == pytest.approx(np.ones(4)) and found["e2e"] == pytest.approx(np.ones(4))
    assert found["tbt"] == pytest.approx(np.ones(3)), "a request of one token has no time between tokens"


def test_who_waits_or_shares_is_slow() -> None:
    cluster = InferenceCluster(
        spec_of(kind_of("chunked", "layers", 2_000), "jsq", (1, 0)), requests(3, 80, rate=200.0), TIMINGS
    )
    cluster.advance()
    found = slowdowns(cluster, TIMINGS, cluster.rows())
    assert all((values >= 1.0 - 1e-9).all() for values in found.values())
    assert found["ttft"].max() > 3.0 and found["tbt"].max() > 1.05


def test_every_model_is_held_against_its_own_instances() -> None:
    other = replace(MODEL, name="other")
    kinds = (
        kind_of("chunked", "layers", 2_000),
        replace(kind_of("chunked", "slow", 2_000), name="two", model=other),
    )
    profile = TIMINGS["layers"]
    slow = profile._replace(overhead=0.5)  # type: ignore[call-arg]
    timings = {**TIMINGS, "slow": slow}
    spec = ClusterSpec(kinds, (Group("one", "mixed", 1), Group("two", "mixed", 1)), "jsq")
    apart = trace_of("two", np.array([0.0, 500.0]), np.array([20, 20], np.int32), np.array([5, 5], np.int32))
    cluster = InferenceCluster(spec, replace(apart, model=np.array([0, 1], np.int32)), timings)
    cluster.advance()
    rows = cluster.rows()
    assert rows[1, c.L_ENDED] - rows[1, c.L_ARRIVAL] > 10 * (rows[0, c.L_ENDED] - rows[0, c.L_ARRIVAL])
    assert slowdowns(cluster, timings, rows)["e2e"] == pytest.approx([1.0, 1.0])


def test_a_table_is_asked_as_its_authors_did() -> None:
    a100 = TIMINGS["table"]._replace(
        prompt_time=np.array([0.1, 0.2, 0.5]), token_time=np.array([0.02, 0.04, 0.1])
    )  # type: ignore[call-arg]
    timings = {"tiny/h100-80gb/8": TIMINGS["table"], "tiny/a100-80gb/8": a100}
    kind = InstanceKind("h", MODEL, gpu("h100-80gb"), "tiny/h100-80gb/8")
    trace = trace_of("one", np.array([0.0]), np.array([250], np.int32), np.array([11], np.int32))
    cluster = InferenceCluster(ClusterSpec((kind,), (Group("h", "mixed", 1),), "jsq"), trace, timings)
    cluster.advance()
    (row,) = cluster.rows()
    first, last = row[c.L_FIRST], row[c.L_ENDED]
    ttft, tbt = 0.35, 0.1 + (250 - 64) * (0.1 - 0.04) / 48
    found = slowdowns(cluster, timings, cluster.rows())
    assert found["ttft"] == pytest.approx([first / ttft])
    assert found["tbt"] == pytest.approx([(last - first) / 11 / tbt])
    assert found["e2e"] == pytest.approx([last / (ttft + 10 * tbt)])
