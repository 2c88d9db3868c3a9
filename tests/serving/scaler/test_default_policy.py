"""`learned` decides unless told otherwise, and whatever a service says it answers within its rails."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.serving.scaler.keda_wire import Keda
from tests.serving.scaler.replicas import NUMBERS, Clock, FakeReplicas, Says, running_scaler

ABILITY = {name: value for name, value in NUMBERS.items() if name not in ("policy", "fallback")}
"""Neither a policy nor a fallback is named."""
BUSY = Says(running=6, kv_use=0.3)


def metadata(fake: FakeReplicas, **more: str) -> dict[str, str]:
    return {"metrics": fake.urls("a", "b", "c"), "most": "8", "cooldownSeconds": "0", **ABILITY, **more}


def _healthy(step: int) -> Says:
    return BUSY.after(10.0 * step, rate=2.0)


def _resetting(step: int) -> Says:
    return Says(running=6, kv_use=0.3, prompt_tokens=100, output_tokens=10, ended=step % 3, quick=step % 3)


def _gauges_alone(step: int) -> str:
    lines = _healthy(step).text().splitlines()
    return "\n".join([*(line for line in lines if "_total" not in line and "first_token" not in line), ""])


def _enormous(step: int) -> Says:
    most = 1e16 * (step + 1)
    return Says(1e6, 1e6, 1.0, prompt_tokens=most, output_tokens=most, ended=most, quick=most)


def _odd_bounds(step: int) -> str:
    return _healthy(step).text().replace('le="0.5"', 'le="0.5000001"')


ODD: dict[str, Callable[[int], Says | str]] = {
    "counters that start over and over": _resetting,
    "gauges alone": _gauges_alone,
    "enormous numbers": _enormous,
    "other buckets": _odd_bounds,
    "idle": lambda step: Says(0, 0, 0.0, 0, 0, 0, 0),
    "backwards": lambda step: BUSY.after(10.0 * (50 - step), rate=2.0),
}


@pytest.mark.parametrize("name", ODD)
def test_learned_decides_whatever_numbers_come(name: str, fake: FakeReplicas, clock: Clock) -> None:
    with running_scaler(clock) as (service, port), Keda(port) as keda:
        for step in range(12):
            fake.places = dict.fromkeys("abc", ODD[name](step))
            assert 1 <= keda.replicas("vllm", metadata(fake, frozenSeconds="0")) <= 8
            clock.now += 10.0
        assert service.measurements.counted("proreus_scaler_decisions", by="policy") == 12
        assert service.measurements.counted("proreus_failures") == 0


@pytest.mark.parametrize("name", ODD)
def test_the_planner_decides_where_metadata_name_it(name: str, fake: FakeReplicas, clock: Clock) -> None:
    """It plays its futures within the deadline of a decision; the first one compiles its kernels."""
    asked = metadata(fake, frozenSeconds="0", policy="planner", deadlineMs="60000")
    with running_scaler(clock) as (service, port), Keda(port) as keda:
        for step in range(12):
            fake.places = dict.fromkeys("abc", ODD[name](step))
            assert 1 <= keda.replicas("vllm", asked) <= 8
            clock.now += 10.0
        assert service.measurements.counted("proreus_scaler_decisions", by="policy") == 12
        assert service.measurements.counted("proreus_failures") == 0


@pytest.mark.parametrize("start", ["2000", "0"])
def test_predictive_decides_beyond_what_learned_knows(start: str, fake: FakeReplicas, clock: Clock) -> None:
    asked = metadata(fake, startSeconds=start, hpaSyncSeconds="0")
    with running_scaler(clock) as (service, port), Keda(port) as keda:
        for step in range(3):
            fake.places = dict.fromkeys("abc", _healthy(step))
            assert 1 <= keda.replicas("vllm", asked) <= 8
            clock.now += 10.0
        assert service.measurements.counted("proreus_scaler_decisions", by="rule", reason="unsure") == 3


def test_one_that_cannot_be_read_takes_no_replicas_with_it(fake: FakeReplicas, clock: Clock) -> None:
    """Its requests were missing from the load, so that a NaN scaled a busy service down."""
    asked = metadata(fake, least="1", startSeconds="60", policy="predictive")
    hard = Says(running=20, kv_use=0.6)
    with running_scaler(clock) as (_, port), Keda(port) as keda:
        steps = itertools.count()
        answers = []
        for broken in (*[False] * 20, *[True] * 20):
            says = hard.after(10.0 * next(steps), rate=8.0)
            fake.places = dict.fromkeys("abc", says)
            if broken:
                fake.places["a"] = Says(waiting="NaN").text()
            answers.append(keda.replicas("vllm", asked))
            clock.now += 10.0
    assert answers[19] >= 2
    assert min(answers[20:]) >= answers[19]


def test_a_first_look_drains_nobody(fake: FakeReplicas, clock: Clock) -> None:
    """Rates are known from the second look on; a scaler that starts anew beside a busy service knows none."""
    fake.places = dict.fromkeys("abc", Says(running=20, kv_use=0.6))
    with running_scaler(clock) as (_, port), Keda(port) as keda:
        assert keda.replicas("vllm", metadata(fake, policy="predictive")) >= 3
