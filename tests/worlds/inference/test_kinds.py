"""Clusters of several kinds and models: who is started, who is drained, who serves whom."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from proreus.contract.play import step_by_step
from proreus.worlds.inference.model.cluster import ClusterSpec, Group
from proreus.worlds.inference.model.start_up import Limits, starting_within
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.scenarios import PRESETS, from_json
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cluster import InferenceCluster
from proreus.worlds.inference.simulation.collector import promises
from proreus.worlds.inference.simulation.cost import Spending
from proreus.worlds.inference.simulation.outcome import measures_of, missed_share
from proreus.worlds.inference.simulation.scaling_manager import ScalingManager
from tests.worlds.inference.clusters import MODEL, TIMINGS, kind_of, requests
from tests.worlds.inference.laws import check


def two(models: bool, servers: tuple[tuple[str, int], ...] = ()) -> tuple[InferenceCluster, ScalingManager]:
    """Two kinds in one pool: of one model, or of two."""
    kind = kind_of("chunked", "layers", 2_000)
    other = replace(kind, name="two", model=replace(MODEL, name="other") if models else MODEL)
    trace = requests(4, 200, rate=40.0)
    trace = replace(trace, model=np.full(len(trace), int(models), np.int32))
    groups = (Group("one", "mixed", 2), Group("two", "mixed", 2))
    cluster = InferenceCluster(ClusterSpec((kind, other), groups, "jsq"), trace, TIMINGS, 0, 10)
    return cluster, ScalingManager(cluster, Limits(most_in_total=10, servers=servers), starting_within(1.0))


def kinds(cluster: InferenceCluster) -> list[int]:
    """Of those that take a server, by kind."""
    fleet = cluster.run.fleet
    there = ~np.isin(fleet[:, c.STATUS], (c.ABSENT, c.STOPPED, c.DRAINING))
    return [int((fleet[there, c.KIND] == kind).sum()) for kind in range(2)]


def test_where_the_first_kind_is_sold_out_the_next_one_comes() -> None:
    cluster, manager = two(models=False, servers=(("one", 3), ("two", 3)))
    for expected in ([3, 2], [3, 3], [3, 3]):
        manager.scale_up_full(tag="mixed")
        assert kinds(cluster) == expected
    assert manager.refused == 1


def test_the_model_that_needs_an_instance_gets_it() -> None:
    cluster, manager = two(models=True)
    cluster.advance(2.0)
    manager.scale_up_full(tag="mixed")
    assert kinds(cluster) == [2, 3], "all requests are for the second model"


def test_no_model_loses_its_last_instance() -> None:
    cluster, manager = two(models=True)
    cluster.advance(2.0)
    order = [int(victim.row) for victim in manager.victims("mixed")]
    assert cluster.run.fleet[order[:2], c.OF_MODEL].tolist() == [0, 1], "the idle one first, never the last"
    assert all(manager.scale_down_full(victim) for victim in manager.victims("mixed")[:2])
    assert not any(manager.scale_down_full(victim) for victim in manager.victims("mixed"))
    assert kinds(cluster) == [1, 1]
    cluster.advance()
    check(cluster)


@pytest.mark.parametrize("name", ["hetero", "two-models"])
def test_scenarios_of_several_kinds_play(name: str) -> None:
    scenario = PRESETS[name]
    calm = replace(scenario.load_, rate=6.0, seconds=400.0, day_seconds=400.0)
    scenario = replace(scenario, load_=calm)
    assert from_json(scenario.to_json(), None) == scenario
    work = scenario.load(0)
    played = step_by_step(scenario, work, POLICIES.make("threshold"), 0)
    assert played.measures["unfinished"] == 0 and played.measures["slo_attainment"] > 50.0
    shares = np.bincount(work.model, minlength=2) / len(work)
    assert shares == pytest.approx([1 / 3, 2 / 3] if name == "two-models" else [1.0, 0.0], abs=0.03)


def test_requests_of_each_model_are_served_by_its_instances() -> None:
    scenario = PRESETS["two-models"]
    scenario = replace(scenario, load_=replace(scenario.load_, seconds=60.0))
    run = scenario.start(scenario.load(0), 0)
    run.cluster.advance()
    rows = run.cluster.rows()
    of_model = run.cluster.run.fleet[rows[:, c.L_PROMPT_BY].astype(int), c.OF_MODEL]
    assert np.array_equal(of_model, rows[:, c.L_MODEL])


def test_classes_count_by_their_weights() -> None:
    options = PRESETS["hetero"].control
    rows = np.zeros((4, c.ROW))
    rows[:, c.L_OUTPUT], rows[:, c.L_SERVICE] = 1, (0, 0, 1, 1)
    rows[:, c.L_FIRST] = rows[:, c.L_ENDED] = (1.0, 5.0, 5.0, 50.0)  # kept, late, kept, late
    arrived = np.array([0, 0, 1, 1, 1], np.int32)  # the fifth never ended
    measures = measures_of(rows, arrived, Spending(), [], options)
    assert measures["slo_attainment"] == pytest.approx(100 * (4 + 1) / (2 * 4 + 3 * 1))
    assert measures["attainment_first_class"] == 50.0
    assert measures["attainment_second_class"] == pytest.approx(100 / 3)
    met, _, _ = promises(rows, options)
    assert missed_share(rows, met, options) == pytest.approx(0.5)
