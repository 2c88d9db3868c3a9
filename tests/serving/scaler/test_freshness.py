"""Metrics that stand still: not read where requests must have moved them, believed where there are none."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from proreus.serving.scaler.freshness import FROZEN, Freshness, FreshnessVerdict
from proreus.serving.scaler.prometheus_text import read_text
from proreus.worlds.inference.state.replicas import Reading, ReplicaSample, Unreadable
from tests.serving.scaler.keda_wire import Keda
from tests.serving.scaler.replicas import NUMBERS, Clock, FakeReplicas, Says, running_scaler

IDLE = Says(running=0, waiting=0, kv_use=0.0)
INTERVAL, STILL, STALE = 10.0, 20.0, 60.0


@dataclass(frozen=True)
class Alive:
    """A replica with the metrics of its process."""

    says: Says
    cpu: float

    def text(self) -> str:
        return f"{self.says.text()}process_cpu_seconds_total {self.cpu}\n"


def sample(says: Says | Alive, at: float) -> ReplicaSample:
    text = read_text(says.text(), at)
    assert isinstance(text, ReplicaSample)
    return text


class Looks:
    """Looks at one pool, one after the other."""

    def __init__(self) -> None:
        self._freshness = Freshness(STILL, INTERVAL, STALE)
        self.at = 0.0

    def look(self, at_router: int = 0, **says: Says | Alive | Reading) -> FreshnessVerdict:
        self.at += INTERVAL
        readings = {
            name: sample(said, self.at) if isinstance(said, Says | Alive) else said
            for name, said in says.items()
        }
        return self._freshness.judge({"mixed": readings}, at_router)


def frozen(judged: FreshnessVerdict) -> set[str]:
    return {
        name
        for name, reading in judged.readings["mixed"].items()
        if isinstance(reading, Unreadable) and reading.reason == FROZEN
    }


def test_a_busy_replica_that_stands_still_is_doubted_then_frozen() -> None:
    looks = Looks()
    assert looks.look(a=Says()).doubt == ""
    assert "a has requests under way" in looks.look(a=Says()).doubt
    judged = looks.look(a=Says())
    assert frozen(judged) == {"a"} and "20 s while 4 requests are under way" in judged.frozen[0]
    assert frozen(looks.look(a=Says().after(30.0))) == set()


@pytest.mark.parametrize("one", ["kv_use", "running", "output_tokens", "late"])
def test_whatever_moves_is_alive(one: str) -> None:
    looks = Looks()
    for step in range(20):
        says = replace(Says(), **{one: 0.01 * step if one == "kv_use" else step + 1})
        judged = looks.look(a=says)
        assert not judged.frozen and not judged.doubt


def test_an_idle_service_is_left_alone_for_a_day() -> None:
    freshness, idle = Freshness(STILL, INTERVAL, STALE), sample(IDLE, 0.0)
    for look in range(8_640):
        now = replace(idle, at=look * INTERVAL)
        judged = freshness.judge({"mixed": {"a": now, "b": now}})
        assert not judged.frozen and not judged.doubt


def test_an_idle_replica_beside_busy_ones_is_left_alone() -> None:
    """A router that knows prefixes sends requests where they fit."""
    looks = Looks()
    for step in range(100):
        assert not looks.look(a=IDLE, b=Says().after(10.0 * step)).frozen


def test_a_pool_that_froze_at_low_load_is_frozen_as_a_whole() -> None:
    looks = Looks()
    for _ in range(2):
        looks.look(a=Says(running=1), b=IDLE, c=IDLE)
    judged = looks.look(a=Says(running=1), b=IDLE, c=IDLE)
    assert frozen(judged) == {"a", "b", "c"}


def test_requests_at_the_router_tell_frozen_from_idle() -> None:
    looks = Looks()
    for _ in range(10):
        assert not looks.look(a=IDLE, b=IDLE).frozen
    assert frozen(looks.look(at_router=12, a=IDLE, b=IDLE)) == {"a", "b"}


def test_the_cpu_time_of_a_process_tells_frozen_from_idle() -> None:
    looks = Looks()
    for step in range(6):
        assert not looks.look(a=Alive(IDLE, 5.0 + 0.01 * (step // 3)), b=IDLE).frozen
    for _ in range(3):
        assert not looks.look(a=Alive(IDLE, 5.01), b=IDLE).frozen  # told in steps of 10 ms
    assert frozen(looks.look(a=Alive(IDLE, 5.01), b=IDLE)) == {"a"}
    assert not looks.look(a=Alive(IDLE, 5.02), b=IDLE).frozen


def test_a_process_that_lives_does_not_vouch_for_its_engine() -> None:
    looks = Looks()
    for step in range(2):
        looks.look(a=Alive(Says(), float(step)))
    assert frozen(looks.look(a=Alive(Says(), 3.0))) == {"a"}


def test_a_sample_that_is_read_twice_has_not_aged() -> None:
    """Prometheus scrapes more rarely than the scaler looks."""
    freshness = Freshness(STILL, INTERVAL, STALE)
    for _ in range(100):
        judged = freshness.judge({"mixed": {"a": sample(Says(), 5.0)}})
        assert not judged.frozen and not judged.doubt


def test_a_replica_that_comes_back_is_not_held_against_its_past() -> None:
    looks = Looks()
    looks.look(a=Says())
    looks.look(b=Says())
    looks.look(b=Says().after(10.0))
    assert not looks.look(a=Says(), b=Says().after(20.0)).frozen


@pytest.mark.parametrize(
    "policy",
    ["threshold", "kpa", "apa", "wva", "dynamo", "predictive", "plan", "chiron", "learned", "planner"],
)
def test_a_service_frozen_at_low_load_keeps_its_replicas(
    policy: str, fake: FakeReplicas, clock: Clock
) -> None:
    places = "abcdef"
    fake.places.update(dict.fromkeys(places, Says(running=1, kv_use=0.02)))
    metadata = {**NUMBERS, "metrics": fake.urls(*places), "policy": policy, "most": "12"}
    with running_scaler(clock) as (service, port), Keda(port) as keda:
        before = keda.replicas("vllm", metadata)
        assert before >= 6
        for _ in range(120):
            clock.now += 10
            assert keda.replicas("vllm", metadata) >= before
        assert "stand still" in service.check_metrics()
        assert service.measurements.counted("proreus_scaler_unreadable", reason="frozen") > 0
        assert b'proreus_scaler_frozen_replicas{object="llm/vllm"} 6.0' in service.measurements.exposition()
        fake.places.update(dict.fromkeys(places, Says(running=1, kv_use=0.02).after(1_200.0)))
        clock.now += 10
        keda.replicas("vllm", metadata)
        assert service.check_metrics() == ""


def test_an_idle_service_still_comes_down(fake: FakeReplicas, clock: Clock) -> None:
    places = "abcdef"
    fake.places.update(dict.fromkeys(places, IDLE))
    metadata = {**NUMBERS, "metrics": fake.urls(*places)}
    with running_scaler(clock) as (service, port), Keda(port) as keda:
        for _ in range(60):
            clock.now += 10
            wanted = keda.replicas("vllm", metadata)
            for place in places[wanted:]:
                fake.places.pop(place, None)
        assert wanted == 1
        assert service.check_metrics() == ""


def test_frozen_seconds_may_be_turned_off(fake: FakeReplicas, clock: Clock) -> None:
    fake.places["a"] = Says()
    metadata = {**NUMBERS, "metrics": fake.urls("a"), "frozenSeconds": "0"}
    with running_scaler(clock) as (service, port), Keda(port) as keda:
        for _ in range(20):
            clock.now += 10
            keda.replicas("vllm", metadata)
        assert service.measurements.counted("proreus_scaler_decisions", by="policy") == 20


def test_what_was_in_a_cache_for_long_is_stale(fake: FakeReplicas, clock: Clock) -> None:
    text = Says().text()
    head = f"HTTP/1.1 200 OK\r\nage: 61\r\ncontent-length: {len(text)}\r\n\r\n"
    fake.places.update(a=lambda to: to.sendall((head + text).encode()), b=Says())
    metadata = {**NUMBERS, "metrics": fake.urls("a", "b")}
    with running_scaler(clock) as (service, port), Keda(port) as keda:
        assert keda.replicas("vllm", metadata) == 1
        assert service.measurements.counted("proreus_scaler_unreadable", reason="stale") == 1
