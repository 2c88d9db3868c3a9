"""Timings from a data sheet beside those that were measured, layer by layer."""

from __future__ import annotations

import numpy as np
import pytest

from proreus.worlds.inference.datasets.layer_profiles import Together, read_layer_profile
from proreus.worlds.inference.model.hardware import gpu
from proreus.worlds.inference.model.llm import language_model
from proreus.worlds.inference.model.roofline import roofline
from tests.real_data import real_data

PROFILED = {"llama3-8b": "meta-llama/Llama-3.1-8B", "qwen3-32b": "Qwen/Qwen3-32B"}
A_THIRD = 0.34


@pytest.mark.parametrize("gpus", [1, 2])
@pytest.mark.parametrize("name", PROFILED)
def test_a_data_sheet_comes_within_a_third_of_what_was_measured(name: str, gpus: int) -> None:
    perf = real_data("llm/llmservingsim") / "llm" / "llmservingsim" / "profiler" / "perf" / "RTXPRO6000"
    model, card = language_model(name), gpu("rtx-pro-6000")
    together = Together(gpus, card.link)
    measured = read_layer_profile(perf / PROFILED[name] / "bf16" / f"tp{gpus}", model, together=together)
    reckoned = roofline(model, card, gpus)
    for tokens in (1, 32, 128, 512, 2_048):
        head = np.interp(tokens, measured.head_at, measured.head_time)
        whole = np.interp(tokens, measured.dense_at, measured.dense_time) + head
        assert np.interp(tokens, reckoned.dense_at, reckoned.dense_time) == pytest.approx(whole, rel=A_THIRD)
    for sequences, context in ((8, 7), (8, 10), (5, 8)):  # 128 sequences of 1,024 and 8,192; 16 of 2,048
        predicted = reckoned.attention[0, 0, sequences, context]
        assert predicted == pytest.approx(measured.attention[0, 0, sequences, context], rel=A_THIRD)
