"""The planner: its futures are the world's own, what it learns from them is arithmetic, and it keeps time."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from proreus.model.decision import Place
from proreus.model.errors import UsageError
from proreus.model.node import Node
from proreus.model.pod import GpuRequest, Pod, PodSpec
from proreus.model.resources import GIB, Resources
from proreus.model.workload import Workload
from proreus.policies.planner import Effort
from proreus.policies.protocol import Explanation
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import PolicyOptions, make_policy
from proreus.worlds.pods.policies.planner.futures import begin_future, play_on
from proreus.worlds.pods.policies.planner.policy import PlannerPolicy
from proreus.worlds.pods.policies.planner.room import best_room, loss
from proreus.worlds.pods.policies.planner.worth import FADE, ahead, sums_of, worth_of
from proreus.worlds.pods.policies.rules.policy import RulePolicy
from proreus.worlds.pods.policies.rules.scores import node_score
from proreus.worlds.pods.simulation.outcome import PodsOutcome
from proreus.worlds.pods.simulation.world import PodsOptions, PodsWorld
from proreus.worlds.pods.state.compile import Compiled, compile_workload, new_scratch
from proreus.worlds.pods.state.devices import LEVEL, LEVELS

DROPS = PodsOptions(drop_failures=True)
SHARES = (650, 320, 470, 1000, 810)


def cluster_of(nodes: int, pods: int, shares: tuple[int, ...] = SHARES) -> Compiled:
    """Nodes of two GPUs, and pods that share them, one after the other, and stay."""
    random = np.random.default_rng(7)
    drawn = random.choice(shares, pods).tolist()
    return compile_workload(
        Workload(
            "planned",
            tuple(
                Node(
                    f"node-{n}", Resources(cpu=32_000, memory=64 * GIB, pods=110), gpu_count=2, gpu_model="T4"
                )
                for n in range(nodes)
            ),
            tuple(
                Pod(f"pod-{p}", PodSpec(Resources(cpu=500), gpu=GpuRequest(1, milli)), float(p), math.inf)
                for p, milli in enumerate(drawn)
            ),
        )
    )


def planner(
    futures: int = 4, deadline: float = 0.0, clock: Callable[[], float] = time.perf_counter
) -> PlannerPolicy:
    """One that plans with FGD, which needs no checkpoint."""
    base = make_policy("fgd")
    assert isinstance(base, RulePolicy)
    return PlannerPolicy("planner", base, Effort(futures, deadline), clock=clock)


def places(outcome: PodsOutcome) -> list[tuple[object, ...]]:
    """Name, state and node of each pod."""
    return [tuple(row[:3]) for row in outcome.rows]


def ticks(step: float) -> Callable[[], float]:
    """A clock that moves by so many seconds whenever somebody looks at it."""
    times: Iterator[float] = (step * k for k in itertools.count())
    return lambda: next(times)


@pytest.mark.parametrize("slice_of", [3, 1_000])
def test_a_future_is_what_the_world_itself_would_play(slice_of: int) -> None:
    work = cluster_of(4, 40)
    world = PodsWorld(work, DROPS)
    while (observation := world.next_decision()) is not None:
        world.apply(make_policy("fgd").decide(observation))
    empty = PodsWorld(work, DROPS)
    rule = make_policy("fgd").rule_for(work, empty.state)  # type: ignore[attr-defined]
    future = begin_future(work.cluster, empty.state, rule, work.cluster.pod_class.copy())
    while not play_on(work.cluster, new_scratch(work.cluster), future, slice_of):
        pass
    assert future.state.gpu_left.tolist() == world.state.gpu_left.tolist()
    assert future.state.free.tolist() == world.state.free.tolist()
    assert empty.state.gpu_left.sum() == 8_000, "a future changes nothing of the present"
    placed = int((world.state.pod_node >= 0).sum())
    assert future.at.tolist() == [40, 8 + placed], "every device as it stood, and every device that changed"


def test_what_a_future_taught_is_the_weighted_mean_of_what_was_left() -> None:
    place, left = np.array([0, 1, 0, 1]), np.array([1000, 1000, 190, 350])
    when = np.array([0.0, 0.0, FADE, 2 * FADE])
    sums = sums_of((place, left, when), np.array([190, 30]))
    assert sums[0, [100, 19, 35]].tolist() == pytest.approx([2.0, math.exp(-1), math.exp(-2)])
    assert sums[1, [100, 19, 35]].tolist() == pytest.approx([220.0, 190 * math.exp(-1), 30 * math.exp(-2)])
    assert sums.sum() == pytest.approx(sums[:, [100, 19, 35]].sum())


def test_a_level_that_nobody_visited_is_judged_by_the_one_below() -> None:
    sums = np.zeros((2, LEVELS))
    sums[:, 35] = 1e9, 30e9
    worth = worth_of(sums)
    assert worth[20] == 200, "nothing is known to fit: all of it stays"
    assert worth[35] == pytest.approx(30, abs=1e-3)
    assert worth[37] == pytest.approx(50, abs=1e-3)


def test_futures_agree_or_not() -> None:
    worth = np.arange(LEVELS, dtype=np.float64) * LEVEL
    known, silent = np.zeros((2, LEVELS)), np.zeros((2, LEVELS))
    known[:, 35] = 100.0, 100.0 * 30
    hole, fresh = (35, 3), (100, 68)
    # Where gaps of 350 fill by themselves, filling one costs more than opening a device that stays as it is.
    assert ahead([known, known, silent], worth, fresh, hole) == (2, 2)
    assert ahead([known, known, silent], worth, hole, fresh) == (0, 2)


def test_the_best_room_is_the_one_that_plain_python_finds() -> None:
    work = cluster_of(5, 60)
    world, random = PodsWorld(work, DROPS), np.random.default_rng(3)
    base = make_policy("best_fit")
    assert isinstance(base, RulePolicy)
    worth = random.uniform(0, 300, LEVELS)
    while (observation := world.next_decision()) is not None:
        cluster, state, c = observation.cluster, observation.state, observation.pod_class
        rule, milli = base.rule_for(work, state), int(cluster.classes.gpu_milli[c])
        room = best_room(cluster, state, observation.scratch, rule, (c, worth))
        if milli < 1000:
            rooms = [
                (
                    math.floor(loss(worth, left, milli) / 10.0),
                    -node_score(cluster, state, rule, c, n),
                    n,
                    d,
                )
                for n in np.flatnonzero(observation.refusals() == 0).tolist()
                for d, left in enumerate(state.gpu_left[n].tolist())
                if left >= milli
            ]
            assert room == ((-1, 0) if not rooms else (min(rooms)[2], 1 << min(rooms)[3]))
        world.apply(Place(*room) if room[0] >= 0 else base.decide(observation))


def test_it_learns_which_gaps_to_keep() -> None:
    work = cluster_of(30, 400)
    policy, world = planner(futures=4), PodsWorld(work, DROPS)
    for _ in range(40):  # the first plan is made, and most of the cluster is still to be filled
        observation = world.next_decision()
        assert observation is not None
        world.apply(policy.decide(observation))
    bound = policy._bound
    assert bound is not None and bound[1].worth is not None
    worth = bound[1].worth
    assert loss(worth, 350, 320) < loss(worth, 530, 320), "a 320 belongs beside a 650, not beside a 470"


def test_the_same_seed_gives_the_same_run_and_asking_changes_nothing() -> None:
    work = cluster_of(20, 80)
    plain = places(simulate(work, planner().fresh(3), DROPS))
    asked = planner().fresh(3)
    explanations = list[Explanation]()
    run = simulate(work, asked, DROPS, inspect=lambda seen: explanations.append(asked.explain(seen)))
    assert places(run) == plain
    weighed = [
        explanation for explanation in explanations if "futures that tell them apart" in explanation.note
    ]
    assert weighed and all(explanation.policy == "planner" and explanation.chosen for explanation in weighed)
    few = "pods seen so far: 1; futures are drawn from 30 on"
    assert explanations[0].note == f"As fgd decides: {few}."


def test_where_no_future_is_over_yet_it_says_so() -> None:
    policy, notes = planner(futures=2, deadline=1.0, clock=ticks(0.0009)), list[str]()
    simulate(cluster_of(60, 160), policy, DROPS, inspect=lambda seen: notes.append(policy.explain(seen).note))
    assert any("the first future takes more than the 1 ms of a decision" in note for note in notes)
    assert any("the first one from here on is still played" in note for note in notes)
    assert not any("of the 0 futures" in note for note in notes)


def test_a_decision_ends_at_its_deadline_and_the_plan_goes_on_in_the_next() -> None:
    work = cluster_of(6, 120)
    world, policy = PodsWorld(work, DROPS), planner(futures=2, deadline=5.0, clock=ticks(0.001))
    learned_after, decided = None, 0
    while (observation := world.next_decision()) is not None:
        world.apply(policy.decide(observation))
        decided += 1
        assert policy._bound is not None
        if learned_after is None and policy._bound[1].worth is not None:
            learned_after = decided
    assert learned_after is not None and learned_after > 30, "not within the first decision that plans"


def test_without_gpus_it_is_its_base() -> None:
    node = Node("node", Resources(cpu=4_000, memory=8 * GIB, pods=110))
    pods = tuple(Pod(f"pod-{p}", PodSpec(Resources(cpu=100)), float(p), 10.0) for p in range(50))
    work = compile_workload(Workload("plain", (node,), pods))
    assert places(simulate(work, planner())) == places(simulate(work, make_policy("fgd")))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("planner@kube", "not by 'kube'"),
        ("planner@planner", "not by 'planner'"),
        ("planner@nobody", "unknown policy 'nobody'"),
    ],
)
def test_a_base_that_cannot_play_futures_is_refused(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_policy(name, PolicyOptions())


def test_senseless_efforts_are_refused() -> None:
    with pytest.raises(UsageError, match="--futures 0"):
        PolicyOptions(futures=0)
    with pytest.raises(UsageError, match="--deadline nan"):
        PolicyOptions(deadline=math.nan)
