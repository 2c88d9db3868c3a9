"""What the tensors of a checkpoint must be for each kind of learned policy."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import numpy as np

from proreus.kernels.arrays import F32
from proreus.model.errors import InputError, UsageError, needs_extra
from proreus.policies.checkpoint import Checkpoint
from proreus.worlds.pods.encoding.context import CONTEXT_FEATURES
from proreus.worlds.pods.encoding.pair import DEMAND_FIGURES, PAIR_FEATURES, POD_KINDS
from proreus.worlds.pods.policies.explanation import PodPolicy
from proreus.worlds.pods.policies.rules.policy import LinearScorer
from proreus.worlds.pods.policies.scorer import PARAMETERS
from proreus.worlds.pods.state.devices import LEVELS

_SIZES = (len(PAIR_FEATURES), len(CONTEXT_FEATURES))
PRETRAINED = Path(__file__).resolve().parents[1] / "pretrained"


def linear_tensors(scorer: LinearScorer) -> dict[str, np.typing.NDArray[np.float64]]:
    """A linear scorer as the tensors of a checkpoint."""
    tensors = {"weights": scorer.weights, "by_demand": scorer.by_demand, "usual": scorer.usual}
    return tensors if scorer.gaps.size == 0 else {**tensors, "gaps": scorer.gaps}


def linear_scorer(checkpoint: Checkpoint, folder: Path) -> LinearScorer:
    """The linear scorer of a checkpoint."""
    kinds, features = len(POD_KINDS), len(PAIR_FEATURES)
    shapes: dict[str, tuple[int, ...]] = {
        "weights": (kinds, features),
        "by_demand": (len(DEMAND_FIGURES), kinds, features),
        "usual": (len(DEMAND_FIGURES),),
    }
    if "gaps" in checkpoint.tensors:  # where it was learned what gaps are worth
        shapes["gaps"] = (LEVELS,)
    for name, shape in shapes.items():
        tensor = checkpoint.tensors.get(name)
        if tensor is None or tensor.shape != shape or not np.isfinite(tensor).all():
            raise InputError(f"needs finite numbers of shape {shape}", file=folder, field=name)
    return LinearScorer(*(checkpoint.tensors[name].astype(np.float64) for name in shapes))


def scorer_parameters(checkpoint: Checkpoint, folder: Path) -> F32:
    """The parameters of a checkpoint's scorer network."""
    parameters = checkpoint.tensors.get("parameters")
    if parameters is None or parameters.shape != (PARAMETERS,) or not np.isfinite(parameters).all():
        raise InputError(f"needs {PARAMETERS} finite numbers", file=folder, field="parameters")
    return parameters.astype(np.float32)


def q_policy(name: str, checkpoint: Checkpoint, folder: Path, *, preempts: bool) -> PodPolicy:
    """The policy of a checkpoint that values actions; torch is imported for it alone."""
    if importlib.util.find_spec("torch") is None:
        raise UsageError(f"{folder}: a policy of kind 'q' {needs_extra('learn')}")
    try:
        network = importlib.import_module("proreus.policies.networks.q_network").network_of(
            checkpoint.tensors, _SIZES
        )
    except ValueError as error:
        raise InputError(str(error), file=folder) from error
    policy: PodPolicy = importlib.import_module("proreus.worlds.pods.policies.q_policy").BiddingQPolicy(
        name, network, preempts
    )
    return policy
