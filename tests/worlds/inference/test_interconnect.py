"""What GPUs of an instance tell each other, and the cards that are known."""

from __future__ import annotations

import numpy as np
import pytest

from proreus.model.errors import UsageError
from proreus.worlds.inference.model.hardware import GPUS
from proreus.worlds.inference.model.interconnect import PCIE5, Interconnect
from proreus.worlds.inference.model.llm import language_model
from proreus.worlds.inference.model.roofline import roofline
from proreus.worlds.inference.simulation.machines import InitialInstances

LINK = Interconnect("test", 10e-6, 16e9)
QWEN = language_model("qwen3-32b")


def test_an_all_reduce_of_two_is_two_hops_with_half_of_the_bytes_each() -> None:
    assert LINK.all_reduce(np.array([16e9]), 2)[0] == pytest.approx(20e-6 + 1.0)
    assert LINK.all_reduce(np.array([16e9]), 4)[0] == pytest.approx(60e-6 + 1.5)


def test_a_layer_has_two_of_them_and_one_gpu_none() -> None:
    found = LINK.of_iteration(QWEN, np.array([1.0, 2_048.0]), 2)
    each = 20e-6 + np.array([1.0, 2_048.0]) * 5_120 * 2 / 16e9
    assert found.tolist() == pytest.approx((2 * 64 * each).tolist())
    assert LINK.of_iteration(QWEN, np.array([2_048.0]), 1).tolist() == [0.0]


def test_without_a_switch_two_gpus_have_one_of_the_wires() -> None:
    """MI300X: seven wires of 64 GB/s each way make up what a data sheet adds up."""
    card = GPUS["mi300x"]
    assert card.link.bandwidth_among(2) == pytest.approx(card.link.bandwidth_among(8) / 7)
    assert card.link.bandwidth_among(16) == card.link.bandwidth == pytest.approx(0.8 * 448e9)
    assert GPUS["h100-80gb"].link.bandwidth_among(2) == GPUS["h100-80gb"].link.bandwidth
    size = np.array([51.2e9])
    assert card.link.all_reduce(size, 2)[0] == pytest.approx(1.0, rel=1e-3)
    own = (
        InitialInstances(gpu="mi300x", gpus=2, model="llama3-8b", link_gigabytes=100.0)
        .spec()
        .kinds[0]
        .gpu.link
    )
    assert own.bandwidth_among(2) == 100e9


def test_links_of_cards_may_be_replaced() -> None:
    own = InitialInstances(
        gpu="rtx-pro-6000", gpus=2, model="qwen3-32b", link_microseconds=3.0, link_gigabytes=50.0
    )
    link = own.spec().kinds[0].gpu.link
    assert link.hop_seconds == pytest.approx(3e-6) and link.bandwidth == 50e9
    usual = InitialInstances(gpu="rtx-pro-6000", gpus=2, model="qwen3-32b").spec().kinds[0].gpu.link
    assert usual == PCIE5
    for wrong in ({"link_gigabytes": 0.0}, {"link_microseconds": -1.0}, {"link_gigabytes": float("nan")}):
        with pytest.raises(UsageError, match="no link"):
            InitialInstances(model="llama3-8b", gpu="l4", gpus=2, **wrong).spec()  # type: ignore[arg-type]


@pytest.mark.parametrize("name", GPUS)
def test_every_card_serves_a_small_model(name: str) -> None:
    card = GPUS[name]
    profile = roofline(language_model("llama3-8b"), card, 2)
    assert np.isfinite(profile.dense_time).all() and (np.diff(profile.dense_time) >= 0).all()
    assert 0 < card.idle_watts < card.decode_watts < card.prefill_watts and card.price > 0
