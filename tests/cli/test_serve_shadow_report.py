"""`proreus serve shadow-report`: from a scaler in shadow to what its policy would have saved."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="the service needs the extra `serve`")

from tests.cli.runner import Proreus
from tests.serving.scaler.keda_wire import Keda
from tests.serving.scaler.replicas import NUMBERS, Clock, FakeReplicas, Says, running_scaler


@pytest.fixture
def fake() -> Iterator[FakeReplicas]:
    """As for the tests of the scaler itself."""
    server = FakeReplicas()
    yield server
    server.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def idle_service(fake: FakeReplicas, clock: Clock, log: Path, **more: str) -> str:
    """Four replicas with next to nothing to do, and a policy in the shadow of somebody who keeps them."""
    says = Says(running=1, kv_use=0.02)
    asked = {"metrics": fake.urls("a", "b", "c", "d"), "cooldownSeconds": "0", **NUMBERS, **more}
    with running_scaler(clock, shadow_log=log) as (service, port), Keda(port) as keda:
        for step in range(60):
            fake.places = dict.fromkeys("abcd", says.after(10.0 * step, rate=0.2))
            assert keda.replicas("vllm", asked) == 4
            clock.now += 10.0
            service.objects.look_at_what_is_due()
        return service.measurements.exposition().decode()


@pytest.mark.parametrize("shadow", ["current", "rule"])
def test_a_shadow_says_what_it_would_have_saved(
    shadow: str, fake: FakeReplicas, clock: Clock, tmp_path: Path, proreus: Proreus
) -> None:
    log = tmp_path / "shadow.jsonl"
    exposed = idle_service(
        fake, clock, log, shadow=shadow, policy="learned", fallback="static", startSeconds="60"
    )
    ended = proreus(
        *("serve", "shadow-report", str(log), "--price", "2", "--gpus", "4"),
        *("--json", str(tmp_path / "report.json")),
    )
    assert (ended.code, ended.err) == (0, "")
    report = json.loads((tmp_path / "report.json").read_text())["llm/vllm"]
    assert report["hours"] == pytest.approx(600 / 3600, abs=0.01)
    assert report["gpu_hours"]["really"] == pytest.approx(4 * 4 * 600 / 3600, rel=0.02)
    assert report["gpu_hours"]["would"] < 0.9 * report["gpu_hours"]["really"]
    assert report["served_as_promised"]["measured"] == 1.0
    assert report["served_as_promised"]["would_estimated"] > 0.98
    assert "by learned (estimated)" in ended.out
    assert "less than an hour: too short to judge by" in ended.out
    saved = report["saved"]["gpu_hours"]
    assert f"at $2 a GPU and hour: ${2 * saved:,.2f}" in ended.out
    assert "estimated" in ended.out
    assert max(map(len, ended.out.splitlines())) <= 80
    assert 'proreus_scaler_shadow_gpu_hours{object="llm/vllm",whose="real"}' in exposed
    assert 'proreus_scaler_shadow_kept_ratio{object="llm/vllm",whose="shadow"}' in exposed


def test_a_policy_that_raises_in_the_shadow_keeps_what_it_had(
    fake: FakeReplicas, clock: Clock, tmp_path: Path, proreus: Proreus
) -> None:
    log = tmp_path / "shadow.jsonl"
    idle_service(fake, clock, log, shadow="current", policy="learned", startSeconds="5000")  # beyond it
    ended = proreus("serve", "shadow-report", str(log), "--json", str(tmp_path / "report.json"))
    assert ended.code == 0
    report = json.loads((tmp_path / "report.json").read_text())["llm/vllm"]
    assert report["saved"]["share"] == pytest.approx(0.0, abs=0.02)
    assert report["refused"]["unsure"] == report["looks"]
    assert "did not decide" in ended.out


def test_who_is_in_no_shadow_writes_no_log(fake: FakeReplicas, clock: Clock, tmp_path: Path) -> None:
    log = tmp_path / "shadow.jsonl"
    exposed = ""
    says = replace(Says(), running=1)
    asked = {"metrics": fake.urls("a"), **NUMBERS}
    with running_scaler(clock, shadow_log=log) as (service, port), Keda(port) as keda:
        fake.places = {"a": says}
        keda.replicas("vllm", asked)
        exposed = service.measurements.exposition().decode()
    assert log.read_text() == ""
    assert "shadow_gpu_hours{" not in exposed


LINE = {
    "object": "llm/vllm",
    "at": 1.0,
    "shadow": {
        **{"policy": "learned", "gpus": 4, "seconds": 10, "real": 40, "would": 30, "ended": 5, "met": 5},
        **{"requests": 5, "would_met": 5, "modelled_met": 5},
    },
}


def test_a_log_that_was_turned_over_and_cut_is_read(tmp_path: Path, proreus: Proreus) -> None:
    log = tmp_path / "log"
    line = json.dumps(LINE)
    (tmp_path / "log.1").write_text(f"{line}\n{line}\n")
    log.write_text(f'{line}\n{{"object": "x", "at": 2}}\n{line[:30]}')
    ended = proreus("serve", "shadow-report", str(log))
    assert ended.code == 0
    assert "3 looks" in ended.out
    assert "less                           0.03 GPU-hours (25.0%)" in ended.out


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no such log"),
        ("{}\n", "log:1: not a line"),
        ("nonsense\n", "log:1: not a line"),
        (json.dumps({**LINE, "shadow": {**LINE["shadow"], "real": -1}}) + "\n", "outside"),  # type: ignore[dict-item]
        ("x" * 2_000_000, "too long"),
    ],
)
def test_a_log_that_is_none_is_refused_in_one_line(
    content: str | None, says: str, tmp_path: Path, proreus: Proreus
) -> None:
    log = tmp_path / "log"
    if content is not None:
        log.write_text(content)
    ended = proreus("serve", "shadow-report", str(log))
    assert ended.code == 2
    assert says in ended.err
    assert len(ended.err.splitlines()) == 1


def test_an_empty_log_says_so(tmp_path: Path, proreus: Proreus) -> None:
    (tmp_path / "log").write_text("")
    ended = proreus("serve", "shadow-report", str(tmp_path / "log"))
    assert (ended.code, ended.out) == (0, "No object has been in shadow since the log began.\n")
