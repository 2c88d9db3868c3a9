"""Logs of vLLM on real GPUs: the timing `profile` with chunked prompts, from profiles of single layers.

The profiles were measured layer by layer, the logs with the whole engine under load: nothing here was fitted
to them but the millisecond that the host takes between two iterations and, where GPUs share experts or
layers, what they take to tell each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from proreus.kernels.arrays import F64
from proreus.worlds.inference.datasets.layer_profiles import read_layer_profile
from proreus.worlds.inference.datasets.timings import timings_of
from proreus.worlds.inference.flags import InferenceFlags
from proreus.worlds.inference.model.cluster import ClusterSpec, Group, InstanceKind
from proreus.worlds.inference.model.hardware import gpu
from proreus.worlds.inference.model.llm import language_model
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cluster import InferenceCluster
from tests.golden.vllm_log import ServedRequests, read_vllm_log
from tests.real_data import real_data

MEASURES: dict[str, Callable[[F64], float]] = {
    "mean": lambda values: float(values.mean()),
    "p90": lambda values: float(np.percentile(values, 90)),
}


@dataclass(frozen=True)
class Logged:
    """A log: of which model, by how many GPUs that share its experts."""

    folder: str
    profile: str
    model: str
    in_step: int


LLAMA = Logged("Llama-3.1-8B", "meta-llama/Llama-3.1-8B", "llama3-8b", 1)
QWEN = Logged("Qwen3-30B-A3B-Instruct-2507", "Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b", 2)


@cache
def served_and_simulated(log: Logged, overhead: float | None = None) -> tuple[ServedRequests, F64, F64]:
    """(what was logged, TTFT and TPOT of ours): 128 sequences and 2,048 tokens an iteration on each GPU."""
    data = real_data("llm/llmservingsim") / "llm" / "llmservingsim"
    served = read_vllm_log(data / "bench" / "RTXPRO6000" / log.folder / "vllm" / "requests.jsonl")
    folder = data / "profiler" / "perf" / "RTXPRO6000" / log.profile / "bf16" / "tp1"
    model = language_model(log.model)
    profile = read_layer_profile(folder, model, log.in_step)
    if overhead is not None:
        profile = profile._replace(overhead=overhead)
    kind = InstanceKind(
        "vllm",
        model,
        gpu("rtx-pro-6000"),
        "layers",
        gpus=1,
        engine="chunked",
        batch_limit=128,
        memory_share=0.9,
        plans_ahead=True,
        in_step=log.in_step,
    )
    spec = ClusterSpec((kind,), (Group("vllm", "mixed", log.in_step),), "jsq")
    cluster = InferenceCluster(spec, served.trace, {"layers": profile})
    cluster.advance()
    rows = cluster.rows()
    rows = rows[np.argsort(rows[:, c.L_REQUEST])]
    assert (rows[:, c.L_STATUS] == c.COMPLETED).all() and len(rows) == len(served.trace)
    tpot = (rows[:, c.L_ENDED] - rows[:, c.L_FIRST]) / np.maximum(rows[:, c.L_OUTPUT] - 1, 1)
    return served, rows[:, c.L_FIRST] - rows[:, c.L_ARRIVAL], tpot


@pytest.mark.parametrize(
    ("log", "overhead"),
    [(LLAMA, None), (LLAMA, 0.0), (QWEN, None)],
    ids=["with the host", "layers alone", "experts that two GPUs share"],
)
def test_means_and_tails_are_within_a_tenth_of_what_was_measured(log: Logged, overhead: float | None) -> None:
    served, ttft, tpot = served_and_simulated(log, overhead)
    for predicted, measured in ((ttft, served.ttft), (tpot, served.tpot)):
        for name, measure in MEASURES.items():
            assert measure(predicted) == pytest.approx(measure(measured), rel=0.10), name


@pytest.mark.parametrize(("log", "alike"), [(LLAMA, 0.99), (QWEN, 0.97)], ids=["Llama", "Qwen"])
def test_requests_fare_one_by_one_as_they_were_logged(log: Logged, alike: float) -> None:
    """Not the same distribution in another order."""
    served, ttft, tpot = served_and_simulated(log)
    assert np.corrcoef(ttft, served.ttft)[0, 1] > alike
    assert np.corrcoef(tpot, served.tpot)[0, 1] > 0.9


@dataclass(frozen=True)
class Shipped:
    """A log, and the flags that describe the machine that it was taken on."""

    folder: str
    flags: InferenceFlags
    batch_limit: int
    kv_tokens: int | None = None
    """Of KV memory that the log tells of; None: what 0.9 of the cards' memory leave."""


QWEN_ON_TWO = Shipped(
    "RTXPRO6000/Qwen3-32B",
    InferenceFlags(scenario="colocated", model="qwen3-32b", gpu="rtx-pro-6000", gpus=2, mixed=1),
    128,
)
LLAMA_ON_4090 = Shipped(
    "RTX4090/Llama-3.1-8B",
    InferenceFlags(
        scenario="colocated", model="llama3-8b", gpu="rtx-4090", gpus=1, mixed=1, prefix_cache="on"
    ),
    256,
    41_408,
)


def errors_of(log: Shipped, folder: Path) -> tuple[dict[str, float], int]:
    """(what `--timing profile` makes of the logged requests over what was measured, less 1; preemptions)."""
    data = real_data(f"llm/llmservingsim/bench/{log.folder}")
    served = read_vllm_log(data / "llm/llmservingsim/bench" / log.folder / "vllm" / "requests.jsonl")
    trace = served.trace
    columns = zip(trace.arrival.tolist(), trace.prompt.tolist(), trace.output.tolist(), strict=True)
    lines = (f"{at!r},{prompt},{output}\n" for at, prompt, output in columns)
    (folder / "logged.csv").write_text("arrival,prompt,output\n" + "".join(lines))
    scenario = replace(log.flags, timing="profile", data=data, trace=folder / "logged.csv").chosen()
    spec = replace(scenario.machines, batch_limit=log.batch_limit).spec()
    (kind,) = spec.kinds
    assert kind.reserves_prompt and kind.plans_ahead
    if log.kv_tokens is not None:
        room = kind.weights + log.kv_tokens * kind.model.kv_bytes
        kind = replace(kind, memory_share=(room + 0.5) / (kind.gpus * kind.gpu.memory))
        spec = replace(spec, kinds=(kind,))
    cluster = InferenceCluster(spec, scenario.load(0), timings_of(spec, scenario.table))
    cluster.advance()
    rows = cluster.rows()
    rows = rows[np.argsort(rows[:, c.L_REQUEST])]
    assert (rows[:, c.L_STATUS] == c.COMPLETED).all() and len(rows) == len(trace) == 300
    ttft = rows[:, c.L_FIRST] - rows[:, c.L_ARRIVAL]
    tpot = (rows[:, c.L_ENDED] - rows[:, c.L_FIRST]) / np.maximum(rows[:, c.L_OUTPUT] - 1, 1)
    errors = {
        f"{what} {name}": measure(simulated) / measure(measured) - 1.0
        for what, simulated, measured in (("ttft", ttft, served.ttft), ("tpot", tpot, served.tpot))
        for name, measure in MEASURES.items()
    }
    return errors, int(rows[:, c.L_PREEMPTIONS].sum())


def test_two_cards_that_compute_every_layer_together(tmp_path: Path) -> None:
    errors, preemptions = errors_of(QWEN_ON_TWO, tmp_path)
    said = {"ttft mean": 0.007, "ttft p90": 0.002, "tpot mean": -0.008, "tpot p90": 0.005}
    assert errors == pytest.approx(said, abs=0.002) and preemptions == 0


def test_where_kv_memory_is_short(tmp_path: Path) -> None:
    """300 requests on a card with room for about 35 of them; LLMServingSim has 194 preemptions."""
    errors, preemptions = errors_of(LLAMA_ON_4090, tmp_path)
    said = {"ttft mean": 0.053, "ttft p90": 0.049, "tpot mean": 0.029, "tpot p90": 0.071}
    assert errors == pytest.approx(said, abs=0.01) and preemptions == pytest.approx(194, rel=0.1)
