"""The fake exporter: what it exposes is in vLLM's words, and a Deployment's number of replicas moves it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import replace

import pytest

pytest.importorskip("prometheus_client", reason="the exporter needs the extra `serve`")

from prometheus_client.parser import text_string_to_metric_families

from proreus.worlds.inference.exporter.fleet import SimulatedFleet
from proreus.worlds.inference.model import vllm
from proreus.worlds.inference.model.start_up import starting_within
from proreus.worlds.inference.scenarios import PRESETS
from proreus.worlds.inference.simulation import columns as c
from tests.cli.runner import environment


def fleet(name: str, seconds: float = 60.0) -> SimulatedFleet:
    base = PRESETS[name]
    control = replace(base.control, start=starting_within(20.0))
    scenario = replace(base, load_=replace(base.load_, seconds=seconds, rate=15.0), control=control)
    return SimulatedFleet(scenario, scenario.load(0))


def values(text: bytes | None) -> dict[str, float]:
    assert text is not None
    return {
        sample.name + sample.labels.get("le", ""): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_names_labels_and_buckets_are_those_of_vllm() -> None:
    playing = fleet("colocated")
    playing.advance(30.0)
    text = playing.metrics(0, "mixed")
    assert text is not None
    families = {family.name: family for family in text_string_to_metric_families(text.decode())}
    for name, bounds in (
        (vllm.TTFT, vllm.TTFT_BOUNDS),
        (vllm.TBT, vllm.TBT_BOUNDS),
        (vllm.E2E, vllm.REQUEST_BOUNDS),
        (vllm.QUEUE_TIME, vllm.REQUEST_BOUNDS),
    ):
        buckets = [sample.labels["le"] for sample in families[name].samples if "le" in sample.labels]
        assert [float(bucket) for bucket in buckets] == [*bounds, float("inf")]
    for family in families.values():
        for sample in family.samples:
            assert (sample.labels["model_name"], sample.labels["engine"]) == ("llama3-70b", "0")
    assert b"vllm:generation_tokens_total{" in text
    assert b'finished_reason="stop"' in text


@pytest.mark.parametrize("name", ["colocated", "surge"])
def test_every_request_is_counted_once_and_counters_never_fall(name: str) -> None:
    playing = fleet(name)
    roles = ("mixed",) if name == "colocated" else ("prompt", "token")
    before: dict[int, dict[str, float]] = {}
    for step in range(1, 40):
        playing.advance(5.0 * step)
        for place in range(playing.places):
            for role in roles:
                text = playing.metrics(place, role)  # type: ignore[arg-type]
                if text is None:
                    continue
                counters = values(text).items()
                now = {key: one for key, one in counters if "num_" not in key and "kv_" not in key}
                assert all(now[key] >= one for key, one in before.get(place, {}).items())
                before[place] = now
    rows, trace = playing.cluster.rows(), playing.cluster.trace
    assert len(rows) == len(trace)
    assert (rows[:, c.L_STATUS] == c.COMPLETED).all()

    def total(key: str) -> float:
        return sum(one[key] for one in before.values())

    assert total(f"{vllm.TTFT}_count") == len(trace)
    assert total(f"{vllm.PROMPT_TOKENS}_total") == trace.prompt.sum()
    assert total(f"{vllm.OUTPUT_TOKENS}_total") == trace.output.sum()
    # A prompt that is computed elsewhere ends there, with one token.
    assert (
        total(f"{vllm.ENDED}_total") == len(trace) + (rows[:, c.L_PROMPT_BY] != rows[:, c.L_TOKEN_BY]).sum()
    )


def test_replicas_appear_when_they_have_started_and_begin_at_zero() -> None:
    playing = fleet("colocated")
    playing.advance(20.0)
    assert playing.metrics(4, "mixed") is None
    playing.scale("mixed", 5)
    playing.advance(39.0)
    assert (playing.replicas("mixed"), playing.serving("mixed")) == (5, 4)
    playing.advance(41.0)
    assert playing.serving("mixed") == 5
    assert values(playing.metrics(4, "mixed"))[f"{vllm.ENDED}_total"] < 5
    playing.scale("mixed", 1)
    assert playing.replicas("mixed") == 1


def test_the_process_answers_takes_a_number_and_ends() -> None:
    words = ["--scenario", "colocated", "--port", "0", "--seconds", "600", "--speed", "20", "--rate", "5"]
    process = subprocess.Popen(
        [sys.executable, "-m", "proreus.worlds.inference.exporter", *words],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[1]
        with urllib.request.urlopen(url, timeout=20.0) as answer:
            assert b"vllm:num_requests_running" in answer.read()
        base = url.removesuffix("/mixed/0/metrics")
        asked = urllib.request.Request(f"{base}/mixed/scale", b'{"replicas": 7}', method="PUT")
        with urllib.request.urlopen(asked, timeout=20.0) as answer:
            assert json.loads(answer.read())["replicas"] == 7
        for path, body, status in (
            ("/mixed/23/metrics", None, 503),
            ("/x", None, 404),
            ("/mixed/scale", b'{"replicas": -1}', 400),
            ("/mixed/scale", b"{", 400),
        ):
            method = "GET" if body is None else "PUT"
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(urllib.request.Request(base + path, body, method=method), timeout=20.0)
            assert refused.value.code == status
            refused.value.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20.0) == 0
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
