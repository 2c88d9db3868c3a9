"""KEDA's protocol, with a client made of its published field numbers."""

from __future__ import annotations

import struct
from pathlib import Path

import grpc
import pytest

from tests.serving.scaler.keda_wire import TYPES, Keda, reference
from tests.serving.scaler.replicas import NUMBERS, Clock, FakeReplicas, Says, running_scaler

BUSY = Says(kv_use=0.95)


def test_the_bytes_of_every_message(fake: FakeReplicas, clock: Clock) -> None:
    """Field by field, as KEDA's definition numbers them: tag = number << 3 | wire type."""
    fake.places["a"] = Says()
    with running_scaler(clock) as (_, port), Keda(port) as keda:
        metadata = {**NUMBERS, "metrics": fake.urls("a"), "metricName": "want"}
        ref = reference("vllm", metadata)
        assert ref.startswith(b"\x0a\x04vllm\x12\x03llm\x1a")
        one = struct.pack("<d", 1.0)
        spec = b"\x0a\x04want\x10\x01\x19" + one
        assert keda.call("GetMetricSpec", ref) == b"\x0a" + bytes([len(spec)]) + spec
        asked = b"\x0a" + _length(len(ref)) + ref + b"\x12\x04want"
        assert keda.call("GetMetrics", asked) == b"\x0a" + bytes([len(spec)]) + spec
        assert keda.call("IsActive", ref) == b"\x08\x01"


def _length(count: int) -> bytes:
    return bytes([count]) if count < 128 else bytes([count & 127 | 128, count >> 7])


def test_the_project_numbers_fields_as_keda_does() -> None:
    from proreus.serving.protos import externalscaler_pb2

    for name, made in TYPES.items():
        if name == "ScalerMetadataEntry":
            continue
        ours = getattr(externalscaler_pb2, name).DESCRIPTOR
        assert {field.name: (field.number, field.type) for field in ours.fields} == {
            field.name: (field.number, field.type) for field in made.DESCRIPTOR.fields
        }
    assert externalscaler_pb2.ScaledObjectRef.DESCRIPTOR.file.package == "externalscaler"


def test_a_busy_service_is_given_more(fake: FakeReplicas, clock: Clock) -> None:
    fake.places.update(a=BUSY, b=BUSY)
    metadata = {**NUMBERS, "metrics": fake.urls("a", "b", "c"), "most": "8"}
    with running_scaler(clock) as (_, port), Keda(port) as keda:
        value = keda.value("vllm", metadata)
        assert (value.metricValue, value.metricValueFloat) == (3, 3.0)
        assert keda.spec("vllm", metadata).targetSizeFloat == 1.0


def test_streams_tell_at_once_and_hold_no_thread(fake: FakeReplicas, clock: Clock) -> None:
    fake.places["a"] = Says()
    metadata = {**NUMBERS, "metrics": fake.urls("a")}
    with running_scaler(clock, threads=1) as (_, port), Keda(port) as keda:
        streams = [keda.stream("StreamIsActive", reference(f"o{n}", metadata)) for n in range(20)]
        assert {next(stream) for stream in streams} == {b"\x08\x01"}
        specs = keda.stream("StreamMetricSpec", reference("o1", metadata))
        assert next(specs) == keda.call("GetMetricSpec", reference("o1", metadata))
        assert keda.replicas("o1", metadata) == 1


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({}, "metrics"),
        ({"metrics": "ftp://x/"}, "metrics"),
        ({"metrics": "http://u:p@x/"}, "metrics"),
        ({"metrics": "http://x:99999/"}, "metrics"),
        ({"prometheus": "x"}, "prometheus"),
        ({"prometheus": "http://p", "selector": '{a="b"}'}, "selector"),
        ({"least": "9", "most": "3"}, "least"),
        ({"least": "0"}, "least"),
        ({"most": "nan"}, "most"),
        ({"most": "2.5"}, "most"),
        ({"maxStep": "0"}, "maxStep"),
        ({"cooldownSeconds": "-1"}, "cooldownSeconds"),
        ({"interval": "soon"}, "interval"),
        ({"shadow": "maybe"}, "shadow"),
        ({"role": "decode"}, "role"),
        ({"role": "prompt", "tokenMetrics": "http://127.0.0.1:1/"}, "promptMetrics"),
        ({"policy": "no_such"}, "policy"),
        ({"policy": "/etc/passwd"}, "policy"),
        ({"policy": "os:system"}, "policy"),
        ({"policy": "oracle"}, "policy"),
        ({"fallback": "no_such"}, "fallback"),
        ({"replica": "3"}, "replica"),
        ({"metricName": "a b"}, "metricName"),
        ({"routerQuery": "up"}, "routerQuery"),
        ({"kvTokens": ""}, "kvTokens"),
        ({"languageModel": "llama3-8b"}, "languageModel"),
    ],
)
def test_bad_metadata_are_refused_by_the_name_of_the_field(
    metadata: dict[str, str], field: str, clock: Clock
) -> None:
    good = {**NUMBERS, "metrics": "http://127.0.0.1:1/metrics"}
    if {"prometheus", "role"} & metadata.keys() or not metadata:
        del good["metrics"]
    with running_scaler(clock) as (_, port), Keda(port) as keda:
        for method in ("GetMetricSpec", "IsActive"):
            with pytest.raises(grpc.RpcError) as refused:
                keda.call(method, reference("vllm", {**good, **metadata}))
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert refused.value.details().startswith(f"{field}: ")


def test_no_ability_is_refused(clock: Clock) -> None:
    with running_scaler(clock) as (_, port), Keda(port) as keda:
        with pytest.raises(grpc.RpcError) as refused:
            keda.spec("vllm", {"metrics": "http://127.0.0.1:1/metrics"})
        assert refused.value.details().startswith("languageModel: ")
        with pytest.raises(grpc.RpcError) as nobody:
            keda.call("IsActive", reference("", {}))
        assert nobody.value.details().startswith("scaledObjectRef.name: ")
        with pytest.raises(grpc.RpcError) as nonsense:
            keda.call("IsActive", b"\xff\xff\xff")
        assert nonsense.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_metric_that_there_is_not(fake: FakeReplicas, clock: Clock) -> None:
    fake.places["a"] = Says()
    with running_scaler(clock) as (_, port), Keda(port) as keda:
        with pytest.raises(grpc.RpcError) as refused:
            keda.value("vllm", {**NUMBERS, "metrics": fake.urls("a")}, "s0-proreus-replicas")
        assert refused.value.details().startswith("metricName: ")


def test_two_objects_side_by_side_do_not_know_each_other(fake: FakeReplicas, clock: Clock) -> None:
    fake.places.update(a=BUSY, b=Says())
    busy = {**NUMBERS, "metrics": fake.urls("a"), "most": "4"}
    calm = {**NUMBERS, "metrics": fake.urls("b"), "most": "4"}
    with running_scaler(clock) as (_, port), Keda(port) as keda:
        assert (keda.replicas("one", busy), keda.replicas("two", calm)) == (2, 1)


def test_two_pools_share_one_controller(fake: FakeReplicas, clock: Clock) -> None:
    fake.places.update(p=Says(waiting=100), t=Says(kv_use=0.95))
    shared = {**NUMBERS, "promptMetrics": fake.urls("p"), "tokenMetrics": fake.urls("t"), "most": "4"}
    with running_scaler(clock) as (service, port), Keda(port) as keda:
        wanted = {
            role: keda.replicas(f"vllm-{role}", {**shared, "role": role}) for role in ("prompt", "token")
        }
        assert wanted == {"prompt": 2, "token": 2}
        assert len(service.objects._objects) == 1


def test_a_policy_of_ones_own_scales_once_the_operator_names_it(
    fake: FakeReplicas, clock: Clock, tmp_path: Path
) -> None:
    own = tmp_path / "mine.py"
    own.write_text(
        "from proreus.worlds.inference.model.decision import Scale\n"
        "class Mine:\n"
        "    def decide(self, seen):\n"
        "        return Scale(mixed=3)\n"
    )
    fake.places["a"] = Says()
    metadata = {**NUMBERS, "metrics": fake.urls("a"), "policy": f"{own}:Mine"}
    with running_scaler(clock, policies=(f"{own}:Mine",)) as (_, port), Keda(port) as keda:
        assert keda.replicas("vllm", metadata) == 4
    with running_scaler(clock) as (_, port), Keda(port) as keda, pytest.raises(grpc.RpcError) as refused:
        keda.replicas("vllm", metadata)
    assert refused.value.details().startswith("policy: ")
