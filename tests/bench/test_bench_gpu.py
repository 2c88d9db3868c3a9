"""`proreus bench gpu` without a GPU: one clear line, or the same columns at a small size."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from proreus.bench import gpu, population_rates, train_peers
from proreus.bench.device_rates import bytes_moved
from proreus.bench.naive_graph import NaiveEnv
from proreus.model.errors import UsageError
from tests.inline_pool import InlinePool


def test_without_cuda_it_says_so() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(UsageError, match=r"no CUDA device here.*--device cpu"):
        next(gpu.bench_gpu(None, lambda text: None))


def test_on_a_cpu_it_measures_the_same_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "CASES", {"cpu": (gpu.Case(3, 12, 4, 4, (4, 4), None),)})
    monkeypatch.setattr(gpu, "_UPDATES", 1)
    monkeypatch.setattr(gpu, "_SECONDS", {"cpu": 0.0})
    monkeypatch.setattr(population_rates, "pool_of", lambda *_, **__: nullcontext(InlinePool()))
    monkeypatch.setattr(train_peers, "batched_rate", lambda batch, updates, shape: 100.0)
    rows = list(gpu.bench_gpu(None, lambda text: None, device="cpu"))
    told = [row.what.partition(": ")[2] for row in rows]
    assert told[-3:] == ["rollout alone", "es", "es"]
    assert set(told) == {
        "es",
        "rollout alone",
        "learning included",
        "steps of a lane with a choice",
        "rollout, moved",
        "rollout, of the memory's bandwidth",
    }
    assert all(row.ours > 0 and row.ok is None for row in rows)
    assert [row.peer_name.partition(",")[0] for row in rows[:3]] == [
        "naive graph",
        "kernels",
        "SB3 on the CPU",
    ]


def test_bytes_are_those_of_operations_and_views_move_nothing() -> None:
    tensor = torch.zeros(100, dtype=torch.float32)
    assert bytes_moved(lambda: tensor.reshape(10, 10).add_(1.0)) == 2 * 400


def test_the_naive_environment_places_and_releases() -> None:
    env = NaiveEnv(4, 3, torch.device("cpu"))
    for _ in range(64):
        env.step()
    full = env._free.clone()
    assert (full >= 0.0).all() and (full.sum() < 4 * 3 * 2)
    held = env._ring.sum(0)
    torch.testing.assert_close(full + held, torch.ones_like(full), atol=1e-4, rtol=0.0)
