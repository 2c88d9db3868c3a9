"""Nodes that refuse are found by what the next state shows, avoided, and tried again."""

from __future__ import annotations

import numpy as np
import pytest

from proreus.kernels.arrays import F64, Bool
from proreus.worlds.pods.policies.vector.refusals import RefusalMemory

N = 4
SMALL, LARGE = (0.005, 1.0), (0.02, 4.0)


def state(*use: float, task: tuple[float, float] | None = SMALL) -> F64:
    """The vector of nodes whose CPU and memory are in use by the same share."""
    shares = np.repeat(np.array(use), 2)
    return shares if task is None else np.concatenate((shares, task))


def refusing(mask: Bool | None) -> list[int]:
    """The nodes that a mask leaves out, which is so for placing and preempting alike."""
    if mask is None:
        return []
    assert mask[:N].tolist() == mask[N : 2 * N].tolist() and mask[2 * N :].all()
    return np.flatnonzero(~mask[:N]).tolist()


class Asked:
    """A client of a service with refusals."""

    def __init__(self) -> None:
        self.refusals = RefusalMemory(N)

    def __call__(self, now: F64, answer: int) -> list[int]:
        """Ask, be answered so; which nodes were out of the question."""
        refused = refusing(self.refusals.welcome("x", now))
        self.refusals.answered("x", now, answer)
        return refused


@pytest.fixture
def asked() -> Asked:
    """Who has asked nothing yet."""
    return Asked()


def test_use_that_rises_elsewhere_is_a_refusal(asked: Asked) -> None:
    assert asked(state(0, 0, 0, 0), 1) == []
    assert asked(state(0, 0, 0.1, 0), 2) == [1]


def test_use_that_rises_where_it_was_said_is_none(asked: Asked) -> None:
    asked(state(0, 0, 0, 0), 1)
    assert asked(state(0, 0.1, 0, 0), 2) == []


def test_an_unchanged_state_is_no_refusal(asked: Asked) -> None:
    """The plugin asks once for every task and node."""
    for _ in range(3):
        assert asked(state(0, 0, 0, 0), 1) == []
    assert asked(state(0, 0, 0, 0.1), 1) == [1]


def test_where_use_rises_on_several_nodes_nothing_is_known(asked: Asked) -> None:
    asked(state(0, 0, 0, 0), 1)
    assert asked(state(0.1, 0, 0.1, 0), 2) == []


def test_a_preemption_that_is_not_carried_out_is_a_refusal_too(asked: Asked) -> None:
    asked(state(0, 0, 0, 0), N + 3)
    assert asked(state(0.1, 0, 0, 0), 0) == [3]


@pytest.mark.parametrize("answer", [2 * N, 2 * N + 1])
def test_a_delay_names_nobody(asked: Asked, answer: int) -> None:
    asked(state(0, 0, 0, 0), answer)
    assert asked(state(0.1, 0, 0, 0), 0) == []


def test_who_refuses_much_may_take_less_but_not_more(asked: Asked) -> None:
    asked(state(0, 0, 0, 0, task=LARGE), 1)
    assert asked(state(0, 0, 0.1, 0, task=SMALL), 2 * N) == []
    assert asked(state(0, 0, 0.1, 0, task=LARGE), 2 * N) == [1]
    asked = Asked()
    asked(state(0, 0, 0, 0, task=SMALL), 1)
    assert asked(state(0, 0, 0.1, 0, task=LARGE), 2 * N) == [1]


def test_a_node_where_something_ends_has_room_again(asked: Asked) -> None:
    asked(state(0, 0.5, 0, 0), 1)
    assert asked(state(0, 0.5, 0.1, 0), 2) == [1]
    assert asked(state(0, 0.3, 0.1, 0), 2 * N) == []


def test_a_refusal_is_forgotten_after_a_long_time(asked: Asked) -> None:
    asked(state(0, 0, 0, 0), 1)
    assert asked(state(0, 0, 0.01, 0), 2) == [1]
    seen = [asked(state(0, 0, 0.01 + 0.001 * k, 0), 2) for k in range(1, 100)]
    assert seen[0] == [1] and seen[-1] == []


def test_a_cluster_where_nothing_runs_any_more_is_a_new_one(asked: Asked) -> None:
    asked(state(0, 0, 0, 0), 1)
    assert asked(state(0, 0, 0.1, 0), 2) == [1]
    assert asked(state(0, 0, 0, 0), 0) == []
    assert asked(state(0.1, 0, 0, 0), 0) == []


def test_when_all_refuse_all_are_asked_again(asked: Asked) -> None:
    use = [0.0] * N
    for node in range(N):
        asked(state(*use), node)
        use[(node + 1) % N] += 0.01
    assert refusing(asked.refusals.welcome("x", state(*use))) == []


def test_states_without_the_task_are_understood(asked: Asked) -> None:
    asked(state(0, 0, 0, 0, task=None), 1)
    assert asked(state(0, 0, 0.1, 0, task=None), 2) == [1]


def test_the_order_of_the_nodes_does_not_matter() -> None:
    order = np.random.default_rng(0).permutation(N)
    there = np.argsort(order)
    plain, other = Asked(), Asked()
    use = np.zeros(N)
    for named, went in ((0, 2), (1, 1), (3, 2), (1, 1)):
        first = plain(state(*use), named)
        second = other(state(*use[order]), int(there[named]))
        assert sorted(int(order[k]) for k in second) == first
        use[went] += 0.05
    assert plain(state(*use), 0) == [0, 3]


def test_each_client_has_a_cluster_of_its_own() -> None:
    refusals = RefusalMemory(N)
    for client in ("a", "b"):
        refusals.answered(client, state(0, 0, 0, 0), 1)
    assert refusing(refusals.welcome("a", state(0, 0, 0.1, 0))) == [1]
    assert refusals.welcome("b", state(0, 0, 0, 0)) is None
    assert refusals.welcome("c", state(0, 0, 0.1, 0)) is None


def test_clients_that_are_silent_for_long_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proreus.worlds.pods.policies.vector.refusals._MOST_BYTES", 3 * (48 * N + 1024))
    refusals = RefusalMemory(N)
    for client in "abcd":
        refusals.answered(client, state(0, 0, 0, 0), 1)
    assert refusals.welcome("a", state(0, 0, 0.1, 0)) is None
    assert refusing(refusals.welcome("d", state(0, 0, 0.1, 0))) == [1]
