"""A stranger's policy in a process of its own: whatever it does is its own error, and nobody waits for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from proreus.model.decision import Delay, Place
from proreus.model.errors import ProreusError, UsageError
from proreus.model.node import Node
from proreus.model.pod import Pod, PodSpec
from proreus.model.resources import GIB, Resources
from proreus.policies import isolated_policy
from proreus.policies.deadline import TooSlow
from proreus.policies.isolated_policy import PolicyResting, Strangers
from proreus.worlds.pods.policies.wire_format import pod_strangers
from proreus.worlds.pods.state.observation import PodObservation
from proreus.worlds.pods.state.open.cluster import OpenCluster

MINE = """
import os, re, sys, time
from proreus.model.decision import Delay, Place

class Good:
    def __init__(self):
        self.asked = 0
    def decide(self, observation):
        self.asked += 1
        return Place(0) if self.asked == 1 else self.after(observation)
    def after(self, observation):
        observation.state.free[:] = -1
        return Delay()
class Spins(Good):
    def after(self, observation):
        while True: pass
class HoldsTheLock(Good):
    def after(self, observation):
        re.match(r"(a+)+$", "a" * 60 + "b")
class Exits(Good):
    def after(self, observation):
        sys.exit(3)
class Interrupts(Good):
    def after(self, observation):
        raise KeyboardInterrupt
class Dies(Good):
    def after(self, observation):
        os._exit(3)
class Takes(Good):
    def after(self, observation):
        return bytearray(10 << 30)
class Prints(Good):
    def after(self, observation):
        while True: print("x" * 1000)
class NoReasons(Good):
    def explain(self, observation):
        raise RuntimeError("no idea")
class Unspeakable(RuntimeError):
    def __str__(self):
        raise RuntimeError("not even that")
class Speechless(Good):
    def decide(self, observation):
        raise Unspeakable
class Looked(Good):
    @property
    def explain(self):
        raise RuntimeError("who looks?")
class Forges:
    # Says on its own socket what our side of it would say.
    def __init__(self):
        import socket
        for number in range(3, 256):
            try:
                told = b'{"lies": 1}'
                socket.socket(fileno=number).send(len(told).to_bytes(8, "little") + told)
            except OSError:
                continue
    def decide(self, observation):
        return Delay()
class Forks(Good):
    def after(self, observation):
        os.fork()
        return Delay()
"""
WAIT = 20.0


@pytest.fixture
def strangers() -> Iterator[Strangers]:
    house = pod_strangers()
    yield house
    house.close()


@pytest.fixture
def mine(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return str(path)


def an_observation() -> PodObservation:
    cluster = OpenCluster()
    cluster.add_node(Node("node", Resources(cpu=1000, memory=GIB, pods=10)))
    return cluster.observe(Pod("pod", PodSpec(Resources(cpu=100))))


def test_it_sees_a_copy_and_remembers(strangers: Strangers, mine: str) -> None:
    policy, observation = strangers.policy(f"{mine}:Good", 0), an_observation()
    before = observation.state.free.copy()
    assert policy.within(observation, WAIT).decision == Place(0)
    assert policy.within(observation, WAIT).decision == Delay()
    assert (observation.state.free == before).all()
    assert policy.fresh(1).within(observation, WAIT).decision == Place(0)


@pytest.mark.parametrize("name", ["Spins", "HoldsTheLock", "Prints"])
def test_who_is_late_is_replaced_at_once(strangers: Strangers, mine: str, name: str) -> None:
    policy, observation = strangers.policy(f"{mine}:{name}", 0), an_observation()
    assert policy.within(observation, WAIT).decision == Place(0)
    with pytest.raises(TooSlow, match="tried again in 10 s"):
        policy.within(observation, 0.2)
    begin = time.perf_counter()
    with pytest.raises(PolicyResting):
        policy.within(observation, 0.2)
    assert time.perf_counter() - begin < 0.1
    assert policy.host.replaced == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [("Exits", "SystemExit: 3"), ("Interrupts", "KeyboardInterrupt"), ("Takes", "MemoryError")],
)
def test_what_it_raises_is_its_error_and_it_stays(
    strangers: Strangers, mine: str, name: str, message: str
) -> None:
    policy, observation = strangers.policy(f"{mine}:{name}", 0), an_observation()
    policy.within(observation, WAIT)
    for _ in range(2):
        with pytest.raises(ProreusError, match=message):
            policy.within(observation, WAIT)
    assert policy.host.replaced == 0


def test_who_exits_is_tried_again_made_anew(
    strangers: Strangers, mine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolated_policy, "FIRST_REST", 0.1)
    policy, observation = strangers.policy(f"{mine}:Dies", 0), an_observation()
    policy.within(observation, WAIT)
    with pytest.raises(ProreusError, match="exited with 3"):
        policy.within(observation, WAIT)
    until = time.monotonic() + 60
    while True:
        try:
            assert policy.within(observation, WAIT).decision == Place(0), "it remembers nothing"
            return
        except PolicyResting:
            assert time.monotonic() < until
            time.sleep(0.05)


def test_a_copy_that_it_makes_of_its_process_says_nothing(strangers: Strangers, mine: str) -> None:
    policy, observation = strangers.policy(f"{mine}:Forks", 0), an_observation()
    assert [policy.within(observation, WAIT).decision for _ in range(4)] == [Place(0), *([Delay()] * 3)]


def test_what_cannot_be_loaded_is_told_and_a_hanging_import_ends_with_the_house(
    strangers: Strangers, mine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="there is no 'Absent'"):
        strangers.policy(f"{mine}:Absent", 0)
    monkeypatch.setattr(isolated_policy, "LOADING_SECONDS", 0.5)
    (tmp_path / "hangs.py").write_text("while True: pass")
    with pytest.raises(ProreusError, match=r"has not been loaded for 0.5 s"):
        strangers.policy(f"{tmp_path}/hangs.py:Mine", 0)


def test_reasons_that_it_fails_to_give_are_its_error_at_once(strangers: Strangers, mine: str) -> None:
    """Who asked waited for a second answer that never came."""
    policy, observation = strangers.policy(f"{mine}:NoReasons", 0), an_observation()
    for _ in range(2):
        with pytest.raises(ProreusError, match="no idea"):
            policy.within(observation, WAIT, reasons=True)
    assert policy.host.replaced == 0


def test_what_cannot_be_told_is_its_error_too(strangers: Strangers, mine: str) -> None:
    policy = strangers.policy(f"{mine}:Speechless", 0)
    with pytest.raises(ProreusError, match="Unspeakable"):
        policy.within(an_observation(), WAIT)
    with pytest.raises(ProreusError, match="who looks"):
        strangers.policy(f"{mine}:Looked", 0)


def test_who_speaks_for_our_side_is_told_off(strangers: Strangers, mine: str) -> None:
    with pytest.raises(ProreusError, match=r"what is no answer|hung up|exited"):
        strangers.policy(f"{mine}:Forges", 0)
