"""Every policy of the world `vms` by name, in one literal."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from proreus.cluster.columns import F64
from proreus.encoding.vms import FEATURES, VERSION
from proreus.model.errors import InputError, unknown_name
from proreus.policies.checkpoint import CARD, is_checkpoint, load_checkpoint
from proreus.policies.learned import PRETRAINED
from proreus.policies.vms.columns import (
    BALANCE_FIT,
    BEST_FIT,
    FIRST_FIT,
    LEARNED,
    MISTAKEN_BEST_FIT,
    RANDOM,
    WORST_FIT,
)
from proreus.policies.vms.policy import VmRulePolicy

VM_POLICIES: dict[str, tuple[str, int]] = {
    "first_fit": ("the first place that fits", FIRST_FIT),
    "best_fit": ("the place that is left with least", BEST_FIT),
    "worst_fit": ("the place that is left with most", WORST_FIT),
    "balance_fit": ("the server whose NUMA nodes differ most, as published with SPANE", BALANCE_FIT),
    "random": ("any place that fits", RANDOM),
    "vmagent_best_fit": (
        'VMAgent\'s "best fit", which is a worst fit; for its published table',
        MISTAKEN_BEST_FIT,
    ),
    "learned": ("the checkpoint that ships with the package", LEARNED),
}


def make_vm_policy(name: str, seed: int = 0) -> VmRulePolicy:
    """The policy of that name, or the checkpoint at that path; a UsageError names the nearest one known.

    The path of a training run stands for its best checkpoint.
    """
    if name in VM_POLICIES and VM_POLICIES[name][1] != LEARNED:
        return VmRulePolicy(name, VM_POLICIES[name][1], seed)
    path = PRETRAINED / "vms" if name == "learned" else Path(name)
    for folder in (path, path / "best"):
        if is_checkpoint(folder):
            return VmRulePolicy(name, LEARNED, seed, scorer_weights(folder))
    raise unknown_name("policy", name, VM_POLICIES)


def scorer_weights(folder: Path) -> F64:
    """[features] of the scorer whose checkpoint is in `folder`."""
    checkpoint = load_checkpoint(folder, VERSION)
    if checkpoint.card.world != "vms" or checkpoint.card.kind != "linear":
        raise InputError(
            f"a {checkpoint.card.kind!r} policy for {checkpoint.card.world!r} cannot play in the vms world",
            file=folder / CARD,
        )
    weights = checkpoint.tensors.get("weights")
    if weights is None or weights.shape != (len(FEATURES),) or not np.isfinite(weights).all():
        raise InputError(f"needs {len(FEATURES)} finite numbers", file=folder, field="weights")
    return weights.astype(np.float64)
