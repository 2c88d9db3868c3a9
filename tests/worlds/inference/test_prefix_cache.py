"""What is cached is not computed again, takes no memory that is needed, and is no more than there was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proreus.model.errors import UsageError
from proreus.worlds.inference.datasets.generator import Lengths, Load
from proreus.worlds.inference.datasets.readers import read_mooncake
from proreus.worlds.inference.datasets.sessions import Conversations, generate_sessions
from proreus.worlds.inference.flags import InferenceFlags
from proreus.worlds.inference.model.cluster import ClusterSpec, Group, InstanceKind, Scheduler
from proreus.worlds.inference.model.hardware import gpu
from proreus.worlds.inference.model.llm import language_model
from proreus.worlds.inference.model.prefixes import blocks_of, own_blocks
from proreus.worlds.inference.model.requests import RequestTrace
from proreus.worlds.inference.model.roofline import roofline
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cluster import InferenceCluster
from tests.real_data import real_data
from tests.worlds.inference.clusters import TIMINGS, alike, kind_of, layers, requests, spec_of
from tests.worlds.inference.reference import serve_chunked
from tests.worlds.inference.test_laws import assert_all_end, shaken
from tests.worlds.inference.test_reference import assert_same, served_by


def found(cluster: InferenceCluster) -> int:
    """Tokens that requests did not compute."""
    return int(cluster.rows()[:, c.L_FOUND].sum())


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 100_000),
    room=st.integers(200, 900),
    batch=st.integers(2, 8),
    tokens=st.sampled_from((10, 60, 400)),
)
def test_the_cache_does_what_plain_python_does(seed: int, room: int, batch: int, tokens: int) -> None:
    kind = replace(kind_of("chunked", "layers", room, batch, tokens), prefix_cache=True)
    kind = replace(kind, reserves_prompt=seed % 2 == 0)
    trace = alike(seed, 40)
    cluster = InferenceCluster(spec_of(kind, "jsq", (1, 0)), trace, TIMINGS)
    assert_same(served_by(cluster), serve_chunked(trace, kind, layers()))


@pytest.mark.parametrize("scheduler", ["cache_aware", "jsq", "kv_cache_aware"])
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000))
def test_laws_hold_with_a_cache_whatever_is_scaled(scheduler: Scheduler, seed: int) -> None:
    kind = replace(kind_of("chunked", "layers", 200 + seed % 400), prefix_cache=True)
    trace = alike(seed)
    cluster = shaken(seed, kind, scheduler, trace=trace)
    assert_all_end(cluster)
    assert trace.prefix is not None
    assert found(cluster) <= trace.prefix.ideal_reuse()


def test_with_room_for_all_of_it_one_instance_reuses_what_can_be() -> None:
    trace = alike(5, 60, rate=0.5)
    assert trace.prefix is not None
    kind = replace(kind_of("chunked", "layers", 100_000), prefix_cache=True)
    cluster = InferenceCluster(spec_of(kind, "jsq", (1, 0)), trace, TIMINGS)
    cluster.advance()
    whole = sum(tokens % 8 == 0 for tokens in trace.prompt.tolist())
    assert trace.prefix.ideal_reuse() - 8 * whole <= found(cluster) <= trace.prefix.ideal_reuse()
    assert found(cluster) > 0


def test_without_numbers_of_blocks_or_without_a_cache_nothing_changes() -> None:
    trace, kind = alike(3), kind_of("chunked", "layers", 300)
    plain = served_by(InferenceCluster(spec_of(kind, "jsq"), replace(trace, prefix=None), TIMINGS))
    assert served_by(InferenceCluster(spec_of(kind, "jsq"), trace, TIMINGS)) == plain
    caching = spec_of(replace(kind, prefix_cache=True), "jsq")
    assert served_by(InferenceCluster(caching, replace(trace, prefix=None), TIMINGS)) == plain


def test_whoever_is_put_back_finds_what_is_left_of_its_own_prompt() -> None:
    """Strangers to each other have a use for a cache too, where memory is short."""
    trace, kind = requests(11, 60, rate=60.0), kind_of("chunked", "layers", 260, tokens=60)
    own = replace(trace, prefix=own_blocks(trace.prompt, kind.block))
    assert own.prefix is not None and own.prefix.ideal_reuse() == 0
    caching = replace(kind, prefix_cache=True)
    clusters = [InferenceCluster(spec_of(each, "jsq", (1, 0)), own, TIMINGS) for each in (kind, caching)]
    for cluster in clusters:
        cluster.advance()
    plain, cached = (cluster.rows() for cluster in clusters)
    assert plain[:, c.L_PREEMPTIONS].sum() > 20 and found(clusters[1]) == 0
    assert cached[:, c.L_ENDED].mean() < plain[:, c.L_ENDED].mean()


def test_a_scenario_with_a_cache_numbers_the_blocks_of_prompts_that_are_strangers() -> None:
    trace = InferenceFlags(scenario="steady", seconds=20.0, prefix_cache="on").chosen().load(0)
    assert trace.prefix is not None and trace.prefix.ideal_reuse() == 0
    assert (np.diff(trace.prefix.begin) == trace.prompt // 16).all()
    assert InferenceFlags(scenario="steady", seconds=20.0).chosen().load(0).prefix is None


def conversations(seed: int) -> RequestTrace:
    """Of a few turns, behind one of four instructions."""
    short = Lengths(3.5, 0.6, 2.5, 0.5, most_prompt=120, most_output=30)
    sessions = Conversations(turns=6.0, pause_seconds=2.0, instruction_tokens=64, most_prompt=600, block=8)
    return generate_sessions("talks", Load(rate=25.0, seconds=20.0, lengths=short), sessions, seed)


def test_turns_of_a_conversation_begin_with_what_was_said() -> None:
    trace = conversations(2)
    assert trace.prefix is not None
    reuse = trace.prefix.ideal_reuse() / int(trace.prompt.sum())
    assert 0.4 < reuse < 0.95
    assert (np.diff(trace.prefix.begin) == trace.prompt // 8).all()


def test_prompts_that_go_where_they_are_known_find_more() -> None:
    kind = replace(kind_of("chunked", "layers", 4_000, batch=16, tokens=400), prefix_cache=True)
    aware, blind = (
        InferenceCluster(spec_of(kind, scheduler, (2, 2)), conversations(1), TIMINGS)
        for scheduler in ("cache_aware", "jsq")
    )
    for cluster in (aware, blind):
        cluster.advance()
    assert found(aware) > 1.2 * found(blind)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="prefix cache"):
        replace(kind_of("orca", "table", 100), prefix_cache=True)
    trace = alike(0)
    odd = replace(trace, prefix=blocks_of([[] for _ in range(len(trace))], 9))
    kind = replace(kind_of("chunked", "layers", 300), prefix_cache=True)
    with pytest.raises(UsageError, match="9 tokens"):
        InferenceCluster(spec_of(kind, "jsq"), odd, TIMINGS)
    with pytest.raises(ValueError, match="more blocks"):
        replace(trace, prompt=np.ones(len(trace), dtype=np.int32))
    with pytest.raises(UsageError, match="instructions leave room"):
        Conversations(instruction_tokens=50_000)


def test_mooncakes_blocks_are_read_and_could_be_reused_as_published(tmp_path: Path) -> None:
    """Its conversations repeat 37 % of their tokens in whole blocks; copies of them share nothing."""
    text = '{"timestamp": 0, "input_length": 1030, "output_length": 5, "hash_ids": [7, 8, 9]}\n'
    text += '{"timestamp": 9, "input_length": 1024, "output_length": 5, "hash_ids": [7, 4]}\n'
    (tmp_path / "few.jsonl").write_text(text)
    few = read_mooncake(tmp_path / "few.jsonl").prefix
    assert few is not None and few.of(0).tolist() == [0, 1] and few.of(1).tolist() == [0, 2]
    assert few.ideal_reuse() == 512
    apart = few.chosen(np.array([1, 0]), np.array([0, 1]))
    assert apart.of(0).tolist() == [0, 2] and apart.ideal_reuse() == 0
    trace = read_mooncake(real_data("llm/mooncake") / "llm" / "mooncake" / "conversation_trace.jsonl")
    assert trace.prefix is not None
    assert trace.prefix.ideal_reuse() / int(trace.prompt.sum()) == pytest.approx(0.37, abs=0.005)


def test_a_router_that_knows_the_caches_finds_thrice_as_much_of_mooncakes_conversations() -> None:
    """As the docs have it: Llama 3 70B on twelve instances of four H100; share of tokens, mean TTFT."""
    trace = read_mooncake(real_data("llm/mooncake") / "llm" / "mooncake" / "conversation_trace.jsonl")
    model, machine = language_model("llama3-70b"), gpu("h100-80gb")
    kind = InstanceKind("cached", model, machine, "roofline", gpus=4, engine="chunked", batch_limit=128)
    kind = replace(kind, memory_share=0.9, prefix_cache=True)
    known: dict[Scheduler, tuple[float, float]] = {}
    for scheduler in ("token_jsq", "cache_aware"):
        spec = ClusterSpec((kind,), (Group("cached", "mixed", 12),), scheduler)
        cluster = InferenceCluster(spec, trace, {"roofline": roofline(model, machine, 4)})
        cluster.advance()
        waited = cluster.rows()[:, c.L_FIRST] - cluster.rows()[:, c.L_ARRIVAL]
        known[scheduler] = found(cluster) / int(trace.prompt.sum()), float(waited.mean())
    assert known["token_jsq"] == pytest.approx((0.064, 1.18), rel=0.02)
    assert known["cache_aware"] == pytest.approx((0.201, 1.02), rel=0.02)
