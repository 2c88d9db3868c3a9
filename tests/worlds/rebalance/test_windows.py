"""Laws of the world of windows, and its kernels against plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.kernels.arrays import F64
from proreus.model.errors import IllegalDecision, InputError, UsageError
from proreus.worlds.rebalance.windows.datasets.generator import WindowsConfig, generate_windows
from proreus.worlds.rebalance.windows.model import (
    Deployment,
    RequestWindows,
    part_of_windows,
    round_robin,
    windows_of,
)
from proreus.worlds.rebalance.windows.simulation.columns import (
    HIT,
    MIGRATED,
    MOVES,
    OVER,
    OVER_REQUESTS,
    REQUESTS,
    STEPS,
    UNDER,
    UNMET,
)
from proreus.worlds.rebalance.windows.simulation.world import WindowsOptions, WindowsWorld, shared_out
from proreus.worlds.rebalance.windows.state import DAY, LAST, MEAN, PEAK, TREND
from tests.oracles.deploy_world import serve, shared

COLUMNS = {
    "steps": STEPS,
    "over": OVER,
    "under": UNDER,
    "requests": REQUESTS,
    "over_requests": OVER_REQUESTS,
    "hit": HIT,
    "unmet": UNMET,
}
amounts = st.floats(0.0, 90.0).map(lambda value: round(value, 2))


@st.composite
def worlds(draw: st.DrawFn) -> WindowsWorld:
    """Small deployments with requests of any size, and any options."""
    nodes, pods, windows = draw(st.integers(2, 4)), draw(st.integers(1, 6)), draw(st.integers(1, 4))
    numbers = np.random.default_rng(draw(st.integers(0, 2**31)))
    deployment = Deployment(
        tuple(f"n{n}" for n in range(nodes)),
        tuple(f"p{p}" for p in range(pods)),
        numbers.uniform(20, 120, (nodes, 2)),
        numbers.uniform(0, 8, (pods, 2)),
        numbers.integers(0, nodes, pods),
    )
    counts = numbers.integers(0, 6, windows * pods)
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    amount = np.round(numbers.uniform(0, draw(st.sampled_from([3.0, 15.0, 60.0])), (int(first[-1]), 2)), 1)
    options = WindowsOptions(
        service=draw(st.sampled_from(["serial", "parallel"])),
        group=draw(st.integers(1, 3)),
        sharing=draw(st.sampled_from(["proportional", "smallest_first"])),
        budget=draw(st.integers(0, 3)),
        max_pods=max(int(np.bincount(deployment.where).max()), draw(st.integers(1, 6))),
    )
    return WindowsWorld(RequestWindows("drawn", deployment, first, amount), options)


def requests_of(world: WindowsWorld, window: int, pod: int) -> list[tuple[float, float]]:
    pods = len(world.windows.deployment.pod_names)
    begin, end = world.windows.first[window * pods + pod : window * pods + pod + 2]
    return [(float(cpu), float(mem)) for cpu, mem in world.windows.amount[begin:end]]


def expected(world: WindowsWorld) -> dict[str, int]:
    """The next window by the reference, summed over the nodes."""
    deployment, options = world.windows.deployment, world.options
    how: dict[str, Any] = {
        "service": options.service,
        "group": options.group,
        "threshold": options.threshold,
        "low": options.low,
        "sharing": options.sharing,
    }
    total = dict.fromkeys(COLUMNS, 0)
    for node in range(len(deployment.node_names)):
        here = np.flatnonzero(world.hosting.where == node).tolist()
        standing = [(float(cpu), float(mem)) for cpu, mem in deployment.standing[here]]
        pods = [
            (stands, requests_of(world, world.window, p)) for stands, p in zip(standing, here, strict=True)
        ]
        cpu, mem = deployment.capacity[node].tolist()
        for name, count in serve(pods, (cpu, mem), how).items():
            total[name] += count
    return total


@settings(max_examples=60)
@given(worlds(), st.randoms(use_true_random=False))
def test_every_law_holds_whatever_is_moved(world: WindowsWorld, random: Any) -> None:
    deployment, options = world.windows.deployment, world.options
    nodes, pods = len(deployment.node_names), len(deployment.pod_names)
    while not world.over:
        moved: set[int] = set()
        cost = 0.0
        while True:
            mask = world.mask()
            brute = np.zeros(pods * nodes + 1, dtype=np.bool_)
            brute[-1] = True
            for p in range(pods):
                for n in range(nodes):
                    standing_there = sum(world.hosting.where[q] == n for q in range(pods))
                    brute[p * nodes + n] = (
                        len(moved) < options.budget
                        and p not in moved
                        and world.hosting.where[p] != n
                        and standing_there < options.max_pods
                    )
            assert (mask == brute).all()
            action = random.choice(np.flatnonzero(mask).tolist())
            if action == pods * nodes:
                break
            pod, node = divmod(action, nodes)
            source = world.hosting.where[pod]
            asked = 100.0 * (world.asked()[pod] / deployment.capacity[source]).sum()
            reward = world.move(pod, node)
            assert reward == pytest.approx(-options.weights.migrated * asked)
            cost += asked
            moved.add(pod)
            counts = np.bincount(world.hosting.where, minlength=nodes)
            assert counts.sum() == pods and (counts == world.hosting.pods).all()
            assert counts.max() <= options.max_pods
            for kind in (LAST, MEAN, PEAK, TREND, DAY):
                for n in range(nodes):
                    there = world.hosting.forecast[kind][world.hosting.where == n].sum(axis=0)
                    assert world.hosting.load[kind, n] == pytest.approx(there)
        want = expected(world)
        reward = world.stop()
        outcome = world.outcome()
        assert {name: int(outcome[column]) for name, column in COLUMNS.items()} == want
        assert outcome[MOVES] == len(moved) <= options.budget
        assert outcome[MIGRATED] == pytest.approx(cost)
        assert reward == pytest.approx(-(0.6 * want["over"] + 0.4 * want["under"] + want["unmet"]))
        assert want["hit"] <= want["requests"] and want["over"] <= want["steps"]


@given(st.lists(st.tuples(amounts, amounts), min_size=1, max_size=8), st.sampled_from([30.0, 100.0, 400.0]))
def test_shares_never_exceed_the_node_and_memory_is_as_asked(
    asked: list[tuple[float, float]], total: float
) -> None:
    requests, capacity = np.array(asked), np.array([[total, total]])
    for sharing in ("proportional", "smallest_first"):
        given_ = shared_out(requests, np.zeros(len(asked), dtype=np.int64), capacity, sharing)
        assert given_ == pytest.approx(np.array(shared(asked, (total, total), sharing)))
        assert (given_.sum(axis=0) <= total * (1 + 1e-9)).all()
        if requests[:, 1].sum() <= total:
            assert given_[:, 1] == pytest.approx(requests[:, 1])
        if sharing == "proportional" and requests[:, 0].sum() > 0:
            # The whole CPU is handed out, by request.
            assert given_[:, 0] == pytest.approx(total * requests[:, 0] / requests[:, 0].sum())


def one_node_windows(requests: list[list[list[float]]], standing: float = 0.0) -> RequestWindows:
    """Two nodes of 100/100; requests[window][pod] = CPU of each, memory alike; all pods on the first."""
    pods = len(requests[0])
    deployment = Deployment(
        ("n0", "n1"),
        tuple(f"p{p}" for p in range(pods)),
        np.full((2, 2), 100.0),
        np.full((pods, 2), standing),
        np.zeros(pods, dtype=np.int64),
    )
    rows = [(w, p, cpu) for w, window in enumerate(requests) for p, pod in enumerate(window) for cpu in pod]
    window, pod, cpu = (np.array(column) for column in zip(*rows, strict=True))
    amount: F64 = np.stack([cpu, cpu], axis=1).astype(np.float64)
    return windows_of("small", deployment, window, pod, amount)


def test_serial_sums_positions_and_pads_the_shorter_with_zeros() -> None:
    # Positions: 50 + 40 = 90, over; 50 + 0 = 50; 30 + 0.
    world = WindowsWorld(one_node_windows([[[50.0, 50.0, 30.0], [40.0]]]))
    world.stop()
    outcome = world.outcome()
    assert [outcome[k] for k in (STEPS, OVER, REQUESTS, OVER_REQUESTS, HIT)] == [3, 1, 4, 2, 0]


def test_parallel_groups_add_up_and_the_smallest_is_satisfied_first() -> None:
    # Groups of one: 50 + 10 = 60, then + 20 + 30 = 110: the 20 fits into the 40 that are left, not the 30.
    options = WindowsOptions(service="parallel", group=1)
    world = WindowsWorld(one_node_windows([[[50.0, 30.0], [10.0, 20.0]]]), options)
    world.stop()
    outcome = world.outcome()
    assert [outcome[k] for k in (STEPS, OVER, OVER_REQUESTS, HIT)] == [2, 1, 2, 1]


def test_what_a_window_held_is_given_back_at_its_end() -> None:
    world = WindowsWorld(one_node_windows([[[150.0], [60.0]], [[10.0], [1.0]]], standing=2.0))
    world.stop()
    assert world.outcome()[UNMET] > 0
    world.stop()
    assert world.outcome()[[OVER, HIT, UNMET]].tolist() == [0, 0, 0]
    assert world.asked().tolist() == [[12.0, 12.0], [3.0, 3.0]]


def test_forecasts_come_from_past_windows_alone() -> None:
    windows = generate_windows(WindowsConfig(nodes=3, pods=6, windows=40), 1)
    later = RequestWindows("later", windows.deployment, windows.first, windows.amount.copy())
    cut = int(windows.first[20 * 6])
    later.amount[cut:] *= 7.0
    here, there = WindowsWorld(windows), WindowsWorld(later)
    for world in (here, there):
        world.begin(20, 40)
    assert (here.hosting.forecast == there.hosting.forecast).all()
    demand = here.stream.demand
    assert here.hosting.forecast[LAST] == pytest.approx(demand[19])
    assert here.hosting.forecast[MEAN] == pytest.approx(demand[8:20].mean(axis=0))
    assert here.hosting.forecast[PEAK] == pytest.approx(demand[8:20].max(axis=0))
    assert here.hosting.forecast[DAY] == pytest.approx(demand[:20].mean(axis=0))
    rise = 2 * demand[17:20].mean(axis=0) - demand[14:17].mean(axis=0)
    assert here.hosting.forecast[TREND] == pytest.approx(np.maximum(rise, 0.0))


def test_parts_follow_each_other_in_time() -> None:
    parts = [part_of_windows(part, 1152) for part in ("train", "valid", "test")]
    assert [parts[0][0], parts[0][1], parts[1][1], parts[2][1]] == [0, parts[1][0], parts[2][0], 1152]


def test_round_robin_gives_every_pod_as_many_requests() -> None:
    assert np.bincount(round_robin(103, 10)).tolist() == [11, 11, 11, *[10] * 7]


@pytest.mark.parametrize("adds_up", [False, True])
def test_generated_windows_ask_for_the_load_that_was_wanted(adds_up: bool) -> None:
    config = WindowsConfig(windows=288, load=0.5, adds_up=adds_up)
    world = WindowsWorld(
        generate_windows(config, 3), WindowsOptions(service="parallel" if adds_up else "serial")
    )
    assert world.stream.demand.sum(axis=1).mean(axis=0) / 1000.0 == pytest.approx([0.5, 0.5])
    again, other = generate_windows(config, 3), generate_windows(config, 4)
    assert (again.amount == world.windows.amount).all()
    assert again.amount.shape != other.amount.shape or (again.amount != other.amount).any()


def test_what_is_not_allowed_is_refused() -> None:
    world = WindowsWorld(one_node_windows([[[1.0], [1.0]]]), WindowsOptions(budget=1))
    for pod, node in ((0, 0), (0, 2), (-1, 1), (5, 1)):
        with pytest.raises(IllegalDecision):
            world.move(pod, node)
    world.move(0, 1)
    with pytest.raises(IllegalDecision):
        world.move(1, 1)
    world.stop()
    with pytest.raises(IllegalDecision):
        world.stop()
    with pytest.raises(UsageError, match="max_pods"):
        WindowsWorld(one_node_windows([[[1.0], [1.0]]]), WindowsOptions(max_pods=1))
    with pytest.raises(InputError, match="not negative"):
        one_node_windows([[[-1.0]]])
