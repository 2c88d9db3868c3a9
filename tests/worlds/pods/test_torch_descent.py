"""Steps by torch against the kernels': the code that runs on a GPU, run here on the CPU."""

from __future__ import annotations

import subprocess
import sys
from typing import Literal

import numpy as np
import pytest
import torch

from proreus.model.errors import UsageError, WorkError
from proreus.worlds.pods.training.batched_lanes import BatchedPods
from proreus.worlds.pods.training.fused_ppo import FusedPPO, FusedPPOConfig
from proreus.worlds.pods.training.torch_descent import TorchDescent
from tests.learning.learning_cases import gpu_world, small_world

CONFIG = FusedPPOConfig(steps=100_000, rollout_steps=24, epochs=2, minibatches=3, threads=1, target_kl=0.0)


def learner_with(world: str, config: FusedPPOConfig = CONFIG) -> FusedPPO:
    compiled = small_world() if world == "small" else gpu_world()
    return FusedPPO(config, BatchedPods(compiled, 8, seed=5, horizon=20))


def with_torch(learner: FusedPPO, device: Literal["cpu", "cuda"] = "cpu") -> FusedPPO:
    """The same learner, with its steps taken by torch."""
    learner._gpu = TorchDescent(learner._rollouts[0], device)
    return learner


@pytest.mark.parametrize("world", ["small", "gpu"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_updates_are_those_of_the_kernels(world: str, device: Literal["cpu", "cuda"]) -> None:
    """One update of six steps of the optimiser: same parameters and figures but for rounding."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("this machine has no CUDA device")
    kernels, torch_steps = learner_with(world), with_torch(learner_with(world), device)
    before = kernels.params.copy()
    ours, theirs = ({**each.learn().figures, **each.aside} for each in (kernels, torch_steps))
    moved = np.abs(kernels.params - before).max()
    assert moved > 1e-3
    np.testing.assert_allclose(torch_steps.params, kernels.params, atol=0.02 * moved)
    for name in ("entropy", "kl", "clip_fraction", "policy_loss", "value_loss"):
        assert theirs[name] == pytest.approx(ours[name], rel=5e-3, abs=1e-4), name
    torch_steps.close()


def test_a_saved_learner_goes_on_with_torch_as_if_nothing_had_happened() -> None:
    whole, first = with_torch(learner_with("small")), with_torch(learner_with("small"))
    whole.learn()
    first.learn()
    second = with_torch(learner_with("small"))
    second.restore(first.capture())
    whole.learn()
    second.learn()
    assert second.params.tobytes() == whole.params.tobytes()


def test_a_loss_that_is_not_a_number_is_reported() -> None:
    learner = with_torch(learner_with("small"))
    learner.params[:] = np.nan
    with pytest.raises(WorkError, match="not a number in update 1"):
        learner.learn()


def test_cuda_is_refused_where_there_is_none() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(UsageError, match="--device cuda"):
        learner_with("small", FusedPPOConfig(device="cuda"))
    assert learner_with("small", FusedPPOConfig(device="auto"))._gpu is None


def test_kernels_need_no_torch() -> None:
    code = "import sys; import proreus.worlds.pods.training.fused_ppo; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
