"""A scaler that is started anew goes on where it was."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from tests.serving.scaler.keda_wire import Keda
from tests.serving.scaler.replicas import NUMBERS, Clock, FakeReplicas, Says, running_scaler


def test_replicas_that_were_starting_are_still_asked_for(
    fake: FakeReplicas, clock: Clock, tmp_path: Path
) -> None:
    fake.places.update(a=Says(kv_use=0.95), b=Says(kv_use=0.95))
    metadata = {**NUMBERS, "metrics": fake.urls("a", "b", "c")}
    state = tmp_path / "state.json"
    with running_scaler(clock, memory=state) as (_, port), Keda(port) as keda:
        assert keda.replicas("vllm", metadata) == 3
    clock.now += 30
    fake.places.update(a=Says(), b=Says())
    with running_scaler(clock, memory=state) as (_, port), Keda(port) as keda:
        assert keda.replicas("vllm", metadata) == 3
    fake.places.clear()  # and even where nothing can be read by then
    with running_scaler(clock, memory=state) as (_, port), Keda(port) as keda:
        assert keda.replicas("vllm", metadata) == 3


@pytest.mark.parametrize("damage", [b"", b"{", b'{"llm/vllm": {"at": 1}}', b'{"llm/vllm": 3}'])
def test_a_damaged_file_costs_what_was_remembered_and_nothing_else(
    damage: bytes, fake: FakeReplicas, clock: Clock, tmp_path: Path
) -> None:
    state = tmp_path / "state.json"
    state.write_bytes(damage)
    fake.places["a"] = Says()
    with running_scaler(clock, memory=state) as (_, port), Keda(port) as keda:
        assert keda.replicas("vllm", {**NUMBERS, "metrics": fake.urls("a")}) == 1
    assert b"vllm" in state.read_bytes()


def test_what_is_too_old_is_forgotten(fake: FakeReplicas, clock: Clock, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    metadata = {**NUMBERS, "metrics": fake.urls("a")}
    fake.places["a"] = Says()
    with running_scaler(clock, memory=state) as (_, port), Keda(port) as keda:
        keda.replicas("vllm", metadata)
    clock.now += 4_000
    fake.places.clear()
    with running_scaler(clock, memory=state) as (_, port), Keda(port) as keda, pytest.raises(grpc.RpcError):
        keda.replicas("vllm", metadata)


def test_metadata_that_change_go_on_from_what_was_asked_for(fake: FakeReplicas, clock: Clock) -> None:
    fake.places["a"] = Says(kv_use=0.95)
    metadata = {**NUMBERS, "metrics": fake.urls("a", "b")}
    with running_scaler(clock) as (_, port), Keda(port) as keda:
        assert keda.replicas("vllm", metadata) == 2
        fake.places["a"] = Says()
        assert keda.replicas("vllm", {**metadata, "policy": "static"}) == 2
