"""Several models on several kinds of GPUs in the same pools: each request is served by those of its model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proreus.model.errors import UsageError
from proreus.worlds.inference.model.cluster import ClusterSpec, Group, Role, Scheduler
from proreus.worlds.inference.model.decision import Scale
from proreus.worlds.inference.model.start_up import Limits, StartUp, starting_within
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cluster import TWO_POOLS, InferenceCluster
from proreus.worlds.inference.simulation.collector import Collector
from proreus.worlds.inference.simulation.model_loads import abilities_by_model
from proreus.worlds.inference.simulation.options import ControlOptions
from proreus.worlds.inference.simulation.scaling_manager import ScalingManager
from tests.worlds.inference.clusters import MODEL, TABLE, TIMINGS, kind_of, requests
from tests.worlds.inference.laws import check

SLOW = TABLE._replace(prompt_time=TABLE.prompt_time * 3, token_time=TABLE.token_time * 3)
FIRST = kind_of("splitwise", "table", 400)
OLDER = replace(FIRST, name="older", timing="slow", gpus=2, gpu=replace(FIRST.gpu, name="older-toy"))
OTHER = replace(FIRST, name="other", model=replace(MODEL, name="other", layers=2))
KINDS = (FIRST, OLDER, OTHER)


def two_models(seed: int, scheduler: Scheduler) -> InferenceCluster:
    """Of the first model one instance on each of two kinds of GPUs, of the second one; for each role."""
    roles: tuple[Role, ...] = ("prompt", "token") if scheduler in TWO_POOLS else ("mixed",)
    groups = tuple(Group(kind.name, role, 1) for role in roles for kind in KINDS)
    trace = requests(seed, 60)
    trace = replace(trace, model=np.random.default_rng(seed).integers(0, 2, len(trace)).astype(np.int32))
    return InferenceCluster(ClusterSpec(KINDS, groups, scheduler), trace, {**TIMINGS, "slow": SLOW}, seed, 12)


@pytest.mark.parametrize("scheduler", ["jsq", "token_jsq", "kv_jsq", "mixed_pool"])
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000))
def test_laws_hold_and_nobody_serves_another_model(scheduler: Scheduler, seed: int) -> None:
    cluster, draw = two_models(seed, scheduler), np.random.default_rng(seed)
    manager = ScalingManager(cluster, Limits(least=1, most_in_total=12), StartUp(0.05, 1e-4, 1e-4, 0.02))
    roles: list[Role] = ["prompt", "token"] if scheduler in TWO_POOLS else ["mixed"]
    models: dict[int, int] = {}
    for step in range(40):
        cluster.advance(0.05 * (step + 1))
        check(cluster)
        role = roles[int(draw.integers(len(roles)))]
        match int(draw.integers(4)):
            case 0:
                manager.scale_up_full(KINDS[int(draw.integers(3))].name, tag=role)
            case 1:
                manager.carry_out(Scale(**{role: int(draw.integers(-3, 3))}))
            case 2 if manager.get_active_instances():
                active = manager.get_active_instances()
                manager.scale_down_full(active[int(draw.integers(len(active)))])
            case _:
                pass
        check(cluster)
        assert all(manager.count(one, model) >= 1 for one in roles for model in (0, 1)), (
            "a model is left alone"
        )
        fleet = cluster.run.fleet
        models |= {int(row[c.NUMBER]): int(row[c.OF_MODEL]) for row in fleet if row[c.STATUS] != c.ABSENT}
    assert cluster.advance()
    rows = cluster.rows()
    assert sorted(rows[:, c.L_REQUEST].tolist()) == list(range(len(cluster.trace)))
    for row in rows[rows[:, c.L_STATUS] == c.COMPLETED]:
        assert {models[int(row[c.L_PROMPT_BY])], models[int(row[c.L_TOKEN_BY])]} == {int(row[c.L_MODEL])}


def manager_of(cluster: InferenceCluster) -> ScalingManager:
    """Without delays."""
    return ScalingManager(cluster, Limits(most_in_total=12), starting_within(0.0))


def kind_started(cluster: InferenceCluster, row: int) -> str:
    """The name of the kind of an instance."""
    return cluster.spec.kinds[int(cluster.run.fleet[row, c.KIND])].name


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ({"instance_cfg": "other"}, "other"),
        ({"server_sku": "older-toy"}, "older"),
        ({"parallelism": 2}, "older"),
        ({}, "one"),
    ],
)
def test_a_start_names_its_kind(asked: dict[str, str | int], kind: str) -> None:
    cluster = two_models(0, "jsq")
    _, instance = manager_of(cluster).scale_up_full(tag="mixed", **asked)  # type: ignore[arg-type]
    assert instance is not None and kind_started(cluster, instance.row) == kind


def test_kinds_that_there_are_not_are_refused_by_name() -> None:
    manager = manager_of(two_models(0, "jsq"))
    with pytest.raises(UsageError, match="name: no kind of instance has 'tpu'; there are one, "):
        manager.scale_up_full("tpu", tag="mixed")
    with pytest.raises(UsageError, match="server_sku: no kind of instance has 'tpu'"):
        manager.scale_up_full(server_sku="tpu", tag="mixed")
    cluster = two_models(0, "jsq")
    with pytest.raises(UsageError, match="model 2, the cluster has 2"):
        InferenceCluster(
            cluster.spec, replace(cluster.trace, model=cluster.trace.model + 1), {**TIMINGS, "slow": SLOW}
        )


def test_a_decision_strengthens_the_model_that_has_most_to_do() -> None:
    cluster = two_models(0, "jsq")
    cluster.trace.model[:] = 1
    manager = manager_of(cluster)
    cluster.advance(1.0)
    manager.carry_out(Scale(mixed=1))
    cluster.advance(1.01)
    assert (manager.count("mixed", 0), manager.count("mixed", 1)) == (2, 2)


def test_what_is_planned_at_one_moment_does_not_decide_who_gets_all_starts() -> None:
    """Both models have as much to do for as many instances; whose prompt is at hand just now, nobody asks."""
    cluster = two_models(0, "jsq")
    cluster.trace.model[:] = np.arange(len(cluster.trace)) % 2
    cluster.trace.prompt[:], cluster.trace.output[:] = 100, 50
    manager = manager_of(cluster)
    manager.scale_up_full("other", tag="mixed")
    cluster.advance(1.0)
    manager.carry_out(Scale(mixed=4))
    assert {manager.count("mixed", 0), manager.count("mixed", 1)} <= {3, 4, 5}


def test_an_instance_goes_from_the_model_that_needs_it_least() -> None:
    cluster = two_models(0, "jsq")
    cluster.trace.model[:] = 1
    manager = manager_of(cluster)
    manager.scale_up_full("other", tag="mixed")
    cluster.advance(1.0)
    manager.carry_out(Scale(mixed=-1))
    assert (manager.count("mixed", 0), manager.count("mixed", 1)) == (1, 2)


def test_abilities_of_several_models_are_weighed_by_what_is_asked_of_each() -> None:
    cluster = two_models(0, "jsq")
    cluster.trace.model[:] = 1
    first, other = abilities_by_model(cluster, "mixed")
    alone = Collector(cluster, ControlOptions()).abilities[0]
    assert alone.prompt_tokens == pytest.approx(other.prompt_tokens)
    cluster.trace.model[:] = np.arange(len(cluster.trace)) % 2
    both = Collector(cluster, ControlOptions()).abilities[0]
    low, high = sorted((first.kv_tokens, other.kv_tokens))
    assert low < both.kv_tokens < high
