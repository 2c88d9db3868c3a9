"""The same work, but more of it or on fewer nodes: what the playground asks of scenarios."""

from __future__ import annotations

import pytest

from proreus.contract.variation import Variable, Variation, counts_without
from proreus.model.errors import UsageError
from proreus.worlds import world

TWICE, ONE_LESS = Variation(load=2), Variation(without=frozenset({1}))


def test_boxes_are_taken_from_the_kinds_that_they_stand_in() -> None:
    assert counts_without([2, 3], frozenset({0, 2, 4})) == [1, 1]
    assert counts_without([1], frozenset({7})) == [1]
    with pytest.raises(UsageError, match="nothing would be left"):
        counts_without([1, 1], frozenset({0, 1}))


def test_pods_come_twice_and_a_node_is_not_there() -> None:
    plain = world("pods").flags().chosen("small")
    before, twice, fewer = (
        one.load(3).workload for one in (plain, plain.varied(TWICE), plain.varied(ONE_LESS))
    )
    assert len(twice.pods) == 2 * len(before.pods) and twice.nodes == before.nodes
    assert len({pod.name for pod in twice.pods}) == len(twice.pods)
    assert [node.name for node in fewer.nodes] == [
        node.name for at, node in enumerate(before.nodes) if at != 1
    ]
    assert fewer.pods == before.pods
    with pytest.raises(UsageError, match="nothing would be left"):
        plain.varied(Variation(without=frozenset(range(99)))).load(3)


def test_machines_that_are_gone_take_no_load_with_them() -> None:
    functions = world("functions").flags().chosen("busy")
    fewer = functions.varied(ONE_LESS)
    cpu = [sum(kind.count * kind.cpu for kind in one.terms.nodes) for one in (functions, fewer)]
    assert cpu[1] < cpu[0] and fewer.load_share * cpu[1] == pytest.approx(functions.load_share * cpu[0])
    assert functions.varied(TWICE).load_share == 2 * functions.load_share
    workflows = world("workflows").flags().chosen("busy")
    assert workflows.varied(ONE_LESS).terms.nodes == workflows.terms.nodes - 1
    assert workflows.varied(TWICE).load_share == 2 * workflows.load_share
    machines = world("vms").flags().chosen("recovering")
    assert sum(shape.count for shape in machines.varied(ONE_LESS).options.servers) == 4
    assert machines.varied(TWICE).load_factor == 2


@pytest.mark.parametrize(
    ("name", "preset", "variation"),
    [
        ("inference", "steady", ONE_LESS),
        ("rebalance", "windows/serial", ONE_LESS),
        ("workflows", "static", TWICE),
    ],
)
def test_what_cannot_be_is_refused(name: str, preset: str, variation: Variation) -> None:
    scenario = world(name).flags().chosen(preset)
    assert isinstance(scenario, Variable)
    with pytest.raises(UsageError):
        scenario.varied(variation)


def test_a_plain_variation_changes_nothing() -> None:
    assert Variation().plain and not TWICE.plain and not ONE_LESS.plain
