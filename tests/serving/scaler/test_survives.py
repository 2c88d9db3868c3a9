"""Metrics that are stale, dead, absurd or hostile: the scaler answers, and says who decided."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path

import grpc
import pytest

from proreus.serving.scaler.http_fetcher import FetchLimits
from tests.serving.scaler.keda_wire import Keda
from tests.serving.scaler.replicas import NUMBERS, Clock, FakeReplicas, Misbehave, Says, running_scaler

QUICKLY = FetchLimits(seconds=2.0)
_OK = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n"
OWN = """
import time
from pathlib import Path
from proreus.worlds.inference.model.decision import Scale

class Raises:
    def decide(self, seen):
        raise RuntimeError("no idea")

class Slow:
    def decide(self, seen):
        time.sleep(1.0)
        return Scale(mixed=5)

class Hangs:
    def __init__(self):
        self.asked = 0
    def decide(self, seen):
        self.asked += 1
        end = time.monotonic() + 60.0
        while self.asked > 2 and not Path(__file__).with_name("go_on").exists() and time.monotonic() < end:
            time.sleep(0.02)
        return Scale()

class Unsure:
    def unsure(self, seen):
        return "more load than it was trained with"
    def decide(self, seen):
        return Scale(mixed=5)

class Illegal:
    def decide(self, seen):
        return Scale(mixed=10_000)

class Nonsense:
    def decide(self, seen):
        return "many"

class More:
    def decide(self, seen):
        return Scale(mixed=2)
"""


def endless(to: socket.socket) -> None:
    to.sendall(_OK + b"\r\n")
    line = b"vllm:num_requests_running{a='b'} 1\n" * 1024
    while True:
        to.sendall(line)


def dripping_body(to: socket.socket) -> None:
    to.sendall(_OK + b"content-length: 100000\r\n\r\n")
    for _ in range(600):
        to.sendall(b"#")
        time.sleep(0.1)


def dripping_head(to: socket.socket) -> None:
    to.sendall(_OK + b"x-slow: ")
    for _ in range(600):
        to.sendall(b"a")
        time.sleep(0.1)


def endless_head(to: socket.socket) -> None:
    to.sendall(_OK)
    while True:
        to.sendall(b"x-more: " + b"a" * 1000 + b"\r\n")


def bomb(to: socket.socket) -> None:
    to.sendall(_OK + b"content-encoding: gzip\r\ncontent-length: 4\r\n\r\nabcd")


def million_series(to: socket.socket) -> None:
    body = "".join(f"vllm:x{number} 1\n" for number in range(200_000)).encode()
    to.sendall(_OK + f"content-length: {len(body)}\r\n\r\n".encode() + body)


HOSTILE: dict[str, Misbehave | str | int] = {
    "endless": endless,
    "dripping body": dripping_body,
    "dripping head": dripping_head,
    "endless head": endless_head,
    "gzip": bomb,
    "million series": million_series,
    "redirect": 302,
    "error": 500,
    "not utf-8": lambda to: to.sendall(_OK + b"content-length: 2\r\n\r\n\xff\xfe"),
    "not a format": 'vllm:num_requests_running{ 1\nvllm:kv"" x y z',
    "NaN": Says(waiting="NaN").text(),
    "infinite": Says(kv_use="+Inf").text(),
    "negative": Says(running=-3).text(),
    "absurd": Says(waiting=1e300).text(),
    "over full": Says(kv_use=97.0).text(),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_one_hostile_replica_of_three_changes_nothing(name: str, fake: FakeReplicas, clock: Clock) -> None:
    """Its last good sample stands in for it; it is counted, and nobody waits long."""
    fake.places.update(a=Says(), b=Says(), c=Says())
    metadata = {**NUMBERS, "metrics": fake.urls("a", "b", "c")}
    with running_scaler(clock, fetch=QUICKLY) as (service, port), Keda(port) as keda:
        assert keda.replicas("vllm", metadata) == 3
        fake.places.update(a=Says().after(10), b=Says().after(10), c=HOSTILE[name])
        clock.now += 10
        began = time.monotonic()
        assert keda.replicas("vllm", metadata) == 3
        assert time.monotonic() - began < 40.0  # it would drip for a minute
        assert service.measurements.counted("proreus_scaler_unreadable") == 1
        assert service.measurements.counted("proreus_scaler_decisions", by="policy") == 2


def test_a_slow_service_holds_up_no_other(fake: FakeReplicas, clock: Clock) -> None:
    released = threading.Event()

    def silent(to: socket.socket) -> None:
        to.sendall(_OK)
        released.wait(120)

    places: dict[str, Misbehave | str | int | Says] = {f"slow{number}": silent for number in range(64)}
    fake.places.update(places, a=Says())
    slow = {**NUMBERS, "metrics": fake.urls(*places)}
    quick = {**NUMBERS, "metrics": fake.urls("a")}
    with running_scaler(clock, fetch=FetchLimits(seconds=60.0)) as (_, port), Keda(port) as keda:
        stuck = threading.Thread(target=lambda: _refused(keda, slow))
        stuck.start()
        time.sleep(0.2)
        assert keda.replicas("quick", quick) == 1
        assert stuck.is_alive(), "nobody waited for it"
        released.set()
        stuck.join()


def _refused(keda: Keda, metadata: dict[str, str]) -> None:
    with pytest.raises(grpc.RpcError):
        keda.replicas("slow", metadata)


def test_one_line_without_end_is_not_parsed(fake: FakeReplicas, clock: Clock) -> None:
    fake.places["a"] = 'vllm:num_requests_running{a="' + '\\"' * 1_000_000 + '"} 1\n'
    with running_scaler(clock) as (service, port), Keda(port) as keda:
        began = time.monotonic()
        _refused(keda, {**NUMBERS, "metrics": fake.urls("a")})
        assert time.monotonic() - began < 40.0
        assert service.measurements.counted("proreus_scaler_unreadable", reason="too_large") == 1


def test_a_name_that_leads_to_secrets_is_not_asked(clock: Clock) -> None:
    metadata = {**NUMBERS, "metrics": "http://169.254.169.254/latest/meta-data/"}
    with running_scaler(clock) as (service, port), Keda(port) as keda:
        with pytest.raises(grpc.RpcError):
            keda.replicas("vllm", metadata)
        assert service.measurements.counted("proreus_scaler_unreadable", reason="forbidden") == 1


def test_a_dead_exporter_holds_the_last_number_and_health_says_so(fake: FakeReplicas, clock: Clock) -> None:
    fake.places.update(a=Says(kv_use=0.95), b=Says(kv_use=0.95))
    metadata = {**NUMBERS, "metrics": fake.urls("a", "b", "c")}
    with running_scaler(clock) as (service, port), Keda(port) as keda:
        assert keda.replicas("vllm", metadata) == 3
        assert service.check_metrics() == ""
        fake.places.clear()
        for _ in range(20):
            clock.now += 30
            assert keda.replicas("vllm", metadata) == 3
        assert "no replica answers" in service.check_metrics()
        assert service.measurements.counted("proreus_scaler_decisions", by="held", reason="dead") == 20
        fake.places.update(a=Says(), b=Says(), c=Says())
        clock.now += 30
        assert keda.replicas("vllm", metadata) == 3
        assert service.check_metrics() == ""


def test_a_scaler_that_has_never_seen_anything_guesses_nothing(fake: FakeReplicas, clock: Clock) -> None:
    """An error leaves the Deployment as it is; a guess would scale it down."""
    metadata = {**NUMBERS, "metrics": fake.urls("a")}
    with running_scaler(clock) as (service, port), Keda(port) as keda:
        with pytest.raises(grpc.RpcError) as refused:
            keda.replicas("vllm", metadata)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "guess" in refused.value.details()
        assert service.check_metrics()
        fake.places["a"] = Says()
        clock.now += 10
        assert keda.replicas("vllm", metadata) == 1


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Raises", "raised"),
        ("Slow", "slow"),
        ("Unsure", "unsure"),
        ("Illegal", "illegal"),
        ("Nonsense", "illegal"),
    ],
)
def test_the_rule_stands_in_for_a_policy(
    name: str, reason: str, fake: FakeReplicas, clock: Clock, tmp_path: Path
) -> None:
    own = tmp_path / "own.py"
    own.write_text(OWN)
    fake.places.update(a=Says(kv_use=0.95))
    metadata = {**NUMBERS, "metrics": fake.urls("a"), "policy": f"{own}:{name}", "fallback": "threshold"}
    metadata["deadlineMs"] = "200" if reason == "slow" else "60000"
    with running_scaler(clock, policies=(f"{own}:{name}",)) as (service, port), Keda(port) as keda:
        assert keda.replicas("vllm", metadata) == 2  # as `threshold` says
        assert service.measurements.counted("proreus_scaler_decisions", by="rule", reason=reason) == 1


def test_a_policy_that_was_quick_and_hangs_holds_nobody_up(
    fake: FakeReplicas, clock: Clock, tmp_path: Path
) -> None:
    own = tmp_path / "own.py"
    own.write_text(OWN)
    fake.places["a"] = Says()
    metadata = {**NUMBERS, "metrics": fake.urls("a"), "policy": f"{own}:Hangs", "deadlineMs": "1000"}
    with running_scaler(clock, policies=(f"{own}:Hangs",)) as (service, port), Keda(port) as keda:
        for _ in range(3):
            began = time.monotonic()
            assert keda.replicas("vllm", metadata) == 1
            assert time.monotonic() - began < 40.0  # it would hang for a minute
            clock.now += 10
            fake.places["a"] = Says().after(clock.now)
        (tmp_path / "go_on").touch()
        assert service.measurements.counted("proreus_scaler_decisions", by="rule", reason="slow") == 1


def test_in_shadow_others_may_scale(fake: FakeReplicas, clock: Clock) -> None:
    fake.places["a"] = Says()
    metadata = {**NUMBERS, "metrics": fake.urls("a", "b", "c"), "shadow": "current"}
    with running_scaler(clock) as (_, port), Keda(port) as keda:
        assert keda.replicas("vllm", metadata) == 1
        fake.places.update(b=Says(), c=Says())
        clock.now += 10
        assert keda.replicas("vllm", metadata) == 3


def test_where_most_replicas_are_unreadable_the_rule_decides(
    fake: FakeReplicas, clock: Clock, tmp_path: Path
) -> None:
    own = tmp_path / "own.py"
    own.write_text(OWN)
    fake.places.update(a=Says(), b=Says())
    metadata = {**NUMBERS, "metrics": fake.urls("a", "b"), "policy": f"{own}:More"}
    with running_scaler(clock, policies=(f"{own}:More",)) as (service, port), Keda(port) as keda:
        assert keda.replicas("vllm", metadata) == 4
        fake.places["b"] = Says(waiting="NaN").text()
        clock.now += 10
        assert keda.replicas("vllm", metadata) == 4
        decisions = service.measurements.counted("proreus_scaler_decisions", by="rule", reason="unreadable")
        assert decisions == 1


@pytest.mark.parametrize(("shadow", "asked_for"), [("true", 2), ("current", 1)])
def test_shadow_writes_what_it_would_have_done(
    shadow: str, asked_for: int, fake: FakeReplicas, clock: Clock, tmp_path: Path
) -> None:
    own, log = tmp_path / "own.py", tmp_path / "shadow.jsonl"
    own.write_text(OWN)
    fake.places["a"] = Says(kv_use=0.95)
    metadata = {**NUMBERS, "metrics": fake.urls("a"), "policy": f"{own}:More", "shadow": shadow}
    options = {"policies": (f"{own}:More",), "shadow_log": log, "shadow_bytes": 4096}
    with running_scaler(clock, **options) as (_, port), Keda(port) as keda:
        assert keda.replicas("vllm", metadata) == asked_for
        first = json.loads(log.read_text().splitlines()[0])
        for _ in range(30):
            clock.now += 10
            keda.replicas("vllm", metadata)
    assert first["object"] == "llm/vllm"
    assert (first["replicas"], first["would"], first["by"]) == ({"mixed": asked_for}, {"mixed": 3}, "policy")
    assert first["seen"]["pools"]["mixed"]["kv_use"] == 0.95
    files = [log, tmp_path / "shadow.jsonl.1"]
    assert sum(path.stat().st_size for path in files) <= 4096
    assert all(json.loads(line) for path in files for line in path.read_text().splitlines())
