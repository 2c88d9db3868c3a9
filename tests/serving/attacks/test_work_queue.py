"""Work of many clients on few threads, and bytes of many clients against one budget."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future

import pytest

from proreus.httpserver.work_queue import Shares, WorkQueue
from proreus.serving.admission import byte_budget, fair_turns
from proreus.serving.messages import Refusal, Refused


class Gate:
    """Work that waits until it may end, and notes that it began."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.began: list[str] = []

    def work(self, name: str) -> str:
        self.began.append(name)
        assert self.open.wait(60)
        return name


def settled(turns: WorkQueue, gate: Gate, count: int) -> list[str]:
    """What has begun, once so many have."""
    until = time.monotonic() + 60
    while len(gate.began) < count and time.monotonic() < until:
        time.sleep(0.005)
    time.sleep(0.02)
    return gate.began


def submit(turns: WorkQueue, gate: Gate, client: str, number: int, *, large: bool = False) -> Future[str]:
    return turns.submit(client, large, lambda: gate.work(f"{client}{number}"))


def test_one_client_never_holds_all_threads() -> None:
    turns, gate = fair_turns(Shares(threads=4)), Gate()
    crowd = [submit(turns, gate, "a", k) for k in range(10)]
    assert sorted(settled(turns, gate, 3)) == ["a0", "a1", "a2"]  # threads begin in any order
    other = submit(turns, gate, "b", 0)
    assert sorted(settled(turns, gate, 4)) == ["a0", "a1", "a2", "b0"]
    gate.open.set()
    assert [each.result(20) for each in (*crowd, other)] == [*(f"a{k}" for k in range(10)), "b0"]
    turns.close(10.0)


def test_clients_take_turns_however_much_one_has_asked_for() -> None:
    # One thread: of two, one may be held up between taking its turn and saying so.
    turns, gate = fair_turns(Shares(threads=1)), Gate()
    done = [submit(turns, gate, "a", k) for k in range(6)]
    done += [submit(turns, gate, "b", k) for k in range(2)]
    done += [submit(turns, gate, "c", k) for k in range(2)]
    gate.open.set()
    for each in done:
        each.result(20)
    order = gate.began
    assert max(order.index("b0"), order.index("c0"), order.index("b1"), order.index("c1")) < order.index("a5")
    turns.close(10.0)


def test_large_work_leaves_threads_for_small_work_and_for_other_clients() -> None:
    turns, gate = fair_turns(Shares(threads=4, large=2)), Gate()
    done = [submit(turns, gate, "a", k, large=True) for k in range(3)]
    done += [submit(turns, gate, "b", 0, large=True), submit(turns, gate, "c", 0, large=True)]
    done += [submit(turns, gate, "a", 9)]
    assert sorted(settled(turns, gate, 3)) == ["a0", "a9", "b0"]  # threads begin in any order
    gate.open.set()
    assert len({each.result(20) for each in done}) == 6
    turns.close(10.0)


def test_too_much_is_refused() -> None:
    turns, gate = fair_turns(Shares(threads=1, waiting=3, waiting_large=2)), Gate()
    done = [submit(turns, gate, "a", k, large=True) for k in range(2)]
    with pytest.raises(Refused) as caught:
        submit(turns, gate, "a", 2, large=True)
    assert caught.value.refusal is Refusal.EXHAUSTED
    done += [submit(turns, gate, "b", 0, large=True)]
    settled(turns, gate, 1)
    done += [submit(turns, gate, "c", 0)]
    with pytest.raises(Refused):
        submit(turns, gate, "d", 0)
    gate.open.set()
    for each in done:
        each.result(20)
    turns.close(10.0)
    with pytest.raises(Refused):
        submit(turns, gate, "a", 0)


def test_what_work_raises_is_handed_on_and_ends_no_thread() -> None:
    turns = fair_turns(Shares(threads=1))
    with pytest.raises(ZeroDivisionError):
        turns.submit("a", False, lambda: 1 // 0).result(20)
    assert turns.submit("a", False, lambda: 1).result(20) == 1
    turns.close(10.0)


def test_one_client_has_half_of_the_bytes() -> None:
    budget = byte_budget(100)
    budget.take("a", 50)
    with pytest.raises(Refused):
        budget.take("a", 1)
    budget.take("b", 50)
    with pytest.raises(Refused):
        budget.take("c", 1)
    budget.give_back("a", 50)
    budget.take("c", 50)
    budget.give_back("b", 50)
    budget.give_back("c", 50)
    assert budget.held == 0
