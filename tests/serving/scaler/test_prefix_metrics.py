"""What prefix caches found, as vLLM and SGLang tell it: into what a controller sees."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proreus.serving.scaler.prometheus_text import read_text
from proreus.worlds.inference.exporter.fleet import SimulatedFleet
from proreus.worlds.inference.model.start_up import Limits
from proreus.worlds.inference.scenarios import PRESETS
from proreus.worlds.inference.simulation.collector import Collector
from proreus.worlds.inference.state.live_collector import LiveCollector, LiveOptions
from proreus.worlds.inference.state.observation import Ability
from proreus.worlds.inference.state.replicas import Absent, Reading, ReplicaSample, Unreadable

ABILITY = Ability(10_000.0, 2_000.0, 100_000.0)

VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 4.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
# TYPE vllm:KV gauge
vllm:KV{engine="0",model_name="m"} 0.41
# HELP vllm:GPUprefix_cache_queries_total Prefix cache queries, in terms of number of queried tokens.
# TYPE vllm:GPUprefix_cache_queries_total counter
vllm:GPUprefix_cache_queries_total{engine="0",model_name="m"} QUERIES
# TYPE vllm:GPUprefix_cache_queries_created gauge
vllm:GPUprefix_cache_queries_created{engine="0",model_name="m"} 1.7788e+09
# TYPE vllm:GPUprefix_cache_hits_total counter
vllm:GPUprefix_cache_hits_total{engine="0",model_name="m"} HITS
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="m"} PROMPTS
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 12000.0
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} ENDED
vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 2.0
"""
SGLANG = """\
# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="m",tp_rank="0"} 4.0
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{engine_type="unified",model_name="m",tp_rank="0"} 1.0
# TYPE sglang:token_usage gauge
sglang:token_usage{engine_type="unified",model_name="m",tp_rank="0"} 0.41
# TYPE sglang:cache_hit_rate gauge
sglang:cache_hit_rate{engine_type="unified",model_name="m",tp_rank="0"} RATE
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total{model_name="m"} PROMPTS
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{model_name="m"} 12000.0
# TYPE sglang:num_requests_total counter
sglang:num_requests_total{model_name="m"} ENDED
# TYPE sglang:time_to_first_token_seconds histogram
sglang:time_to_first_token_seconds_bucket{le="0.4",model_name="m"} ENDED
sglang:time_to_first_token_seconds_bucket{le="2.0",model_name="m"} ENDED
sglang:time_to_first_token_seconds_bucket{le="+Inf",model_name="m"} ENDED
sglang:time_to_first_token_seconds_sum{model_name="m"} 9.0
sglang:time_to_first_token_seconds_count{model_name="m"} ENDED
"""
CACHED = """\
# TYPE sglang:cached_tokens_total counter
sglang:cached_tokens_total{cache_source="device",model_name="m"} HITS
sglang:cached_tokens_total{cache_source="host",model_name="m"} 100
"""


def vllm_text(older: bool, **numbers: float) -> str:
    text = VLLM.replace("GPU", "gpu_" if older else "")
    text = text.replace("vllm:KV", "vllm:gpu_cache_usage_perc" if older else "vllm:kv_cache_usage_perc")
    return _filled(text, numbers)


def _filled(text: str, numbers: dict[str, float]) -> str:
    for name, value in numbers.items():
        text = text.replace(name.upper(), repr(float(value)))
    return text


def found_between(*texts: str) -> list[float]:
    """As a controller sees it, look by look."""
    live = LiveCollector(LiveOptions({"mixed": ABILITY}, Limits(1, 8, 8)))
    shares = []
    for step, text in enumerate(texts):
        reading = read_text(text, 10.0 * step)
        assert isinstance(reading, ReplicaSample), reading
        shares.append(live.look(10.0 * step, {"mixed": {"a": reading}}).observation.traffic.found)
    return shares


@pytest.mark.parametrize("older", [False, True])
def test_vllm_counts_tokens_that_were_looked_up_and_found(older: bool) -> None:
    first = vllm_text(older, queries=1_000, hits=900, prompts=1_000, ended=5)
    later = vllm_text(older, queries=3_000, hits=1_400, prompts=3_000, ended=9)
    quiet = vllm_text(older, queries=3_000, hits=1_400, prompts=3_000, ended=12)
    anew = vllm_text(older, queries=400, hits=300, prompts=400, ended=1)
    # Of what came since; while nothing does, as before; a restart counts from nothing.
    assert found_between(first, later, quiet, anew) == [0.0, 0.25, 0.25, 0.75]


def test_tokens_of_another_store_are_found_too() -> None:
    external = (
        "# TYPE vllm:external_prefix_cache_hits_total counter\n"
        'vllm:external_prefix_cache_hits_total{engine="0",model_name="m"} '
    )
    texts = [
        vllm_text(False, queries=queries, hits=hits, prompts=queries, ended=5) + f"{external}{more}\n"
        for queries, hits, more in ((1_000, 0, 0), (2_000, 250, 250))
    ]
    assert found_between(*texts) == [0.0, 0.5]


def test_sglang_counts_cached_tokens() -> None:
    texts = [
        _filled(SGLANG + CACHED, {"rate": 0.9, "prompts": prompts, "hits": hits, "ended": 20})
        for prompts, hits in ((1_000, 0), (2_000, 400))
    ]
    assert found_between(*texts) == [0.0, 0.4]


def test_sglang_that_only_tells_a_rate() -> None:
    texts = [_filled(SGLANG, {"rate": 0.3, "prompts": prompts, "ended": 20}) for prompts in (1_000, 2_000)]
    assert found_between(*texts) == pytest.approx([0.0, 0.3])


def test_a_sample_of_sglang_means_what_one_of_vllm_means() -> None:
    sample = read_text(_filled(SGLANG, {"rate": 0.3, "prompts": 1_000, "ended": 20}), 10.0, "m")
    assert isinstance(sample, ReplicaSample)
    assert (sample.running, sample.waiting, sample.kv_use) == (4.0, 1.0, 0.41)
    assert (sample.prompt_tokens, sample.output_tokens, sample.ended) == (1_000.0, 12_000.0, 20.0)
    assert sample.ttft.share_within(2.0).low == 1.0


def test_a_server_without_a_cache_finds_nothing() -> None:
    """vLLM said -1 there."""
    off = '# TYPE vllm:gpu_prefix_cache_hit_rate gauge\nvllm:gpu_prefix_cache_hit_rate{model_name="m"} -1.0\n'
    bare = "\n".join(
        line for line in vllm_text(False, prompts=1_000, ended=5).splitlines() if "prefix" not in line
    )
    assert found_between(bare, f"{bare}\n{off}", bare) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("hits", ["NaN", "-5", "+Inf", "1e300"])
def test_hits_that_cannot_be_are_refused(hits: str) -> None:
    text = vllm_text(False, queries=1_000, prompts=1_000, ended=5).replace("HITS", hits)
    assert isinstance(read_text(text, 0.0), Unreadable)


def test_more_hits_than_queries_are_all() -> None:
    first = vllm_text(False, queries=1_000, hits=0, prompts=1_000, ended=5)
    assert found_between(first, vllm_text(False, queries=1_100, hits=900, prompts=1_100, ended=6)) == [
        0.0,
        1.0,
    ]


def test_what_a_cache_knew_is_no_work_that_a_replica_can_do() -> None:
    live = LiveCollector(LiveOptions({"mixed": ABILITY}, Limits(1, 8, 8)))
    for step, (prompts, hits) in enumerate(((0, 0), (400_000, 350_000))):
        text = vllm_text(False, queries=prompts, hits=hits, prompts=prompts, ended=5)
        seen = live.look(10.0 * step, {"mixed": {"a": read_text(text, 10.0 * step)}}).observation
    assert seen.abilities == (ABILITY,)  # 5,000 a second were computed, not 40,000


def test_it_is_what_the_simulator_finds() -> None:
    base = PRESETS["conversations"]
    scenario = replace(base, load_=replace(base.load_, seconds=240.0))
    fleet = SimulatedFleet(scenario, scenario.load(0))
    inside = Collector(fleet.cluster, scenario.control)
    live = LiveCollector(LiveOptions({"mixed": ABILITY}, scenario.control.limits))
    told: list[float] = []
    true: list[float] = []
    for step in range(1, 24):
        fleet.advance(10.0 * step)
        readings: dict[str, Reading] = {}
        for place in range(fleet.places):
            text = fleet.metrics(place, "mixed")
            readings[str(place)] = Absent() if text is None else read_text(text.decode(), fleet.now)
        told.append(live.look(fleet.now, {"mixed": readings}).observation.traffic.found)
        true.append(inside.look().traffic.found)
    # It is told when a prompt begins, and by the simulator when a request ends: alike on average.
    assert sum(true[8:]) / 15 > 0.4
    assert sum(told[8:]) / 15 == pytest.approx(sum(true[8:]) / 15, abs=0.05)
