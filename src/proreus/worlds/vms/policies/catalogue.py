"""Every policy of the world `vms` by name, in one literal."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from proreus.kernels.arrays import F64
from proreus.model.errors import InputError, unknown_name
from proreus.policies.checkpoint import CARD, WEIGHTS, Checkpoint, is_checkpoint, load_checkpoint, read_card
from proreus.policies.networks.bidder import BIDDERS, bidder_of
from proreus.worlds.vms.encoding import place as vms
from proreus.worlds.vms.encoding import rows as servers
from proreus.worlds.vms.policies.bidder import SIZES
from proreus.worlds.vms.policies.columns import (
    BALANCE_FIT,
    BEST_FIT,
    BIDDING,
    FIRST_FIT,
    LEARNED,
    MISTAKEN_BEST_FIT,
    RANDOM,
    WORST_FIT,
)
from proreus.worlds.vms.policies.policy import VmRulePolicy

PRETRAINED = Path(__file__).resolve().parents[1] / "pretrained" / "vms"
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
    path = PRETRAINED if name == "learned" else Path(name)
    for folder in (path, path / "best"):
        if is_checkpoint(folder):
            return _from_checkpoint(name, folder, seed)
    raise unknown_name("policy", name, VM_POLICIES)


def _from_checkpoint(name: str, folder: Path, seed: int) -> VmRulePolicy:
    card = read_card(folder / CARD)
    if card.world != "vms" or (card.kind != "linear" and card.kind not in BIDDERS):
        raise InputError(
            f"a {card.kind!r} policy for {card.world!r} cannot play in the vms world", file=folder / CARD
        )
    if card.kind == "linear":
        weights = _scorer_weights(load_checkpoint(folder, vms.VERSION), folder)
        return VmRulePolicy(name, LEARNED, seed, weights)
    checkpoint = load_checkpoint(folder, servers.VERSION)
    try:
        return VmRulePolicy(name, BIDDING, seed, bidder=bidder_of(card.kind, checkpoint.tensors, SIZES))
    except ValueError as error:
        raise InputError(str(error), file=folder / WEIGHTS) from error


def _scorer_weights(checkpoint: Checkpoint, folder: Path) -> F64:
    """[features] of a scorer."""
    weights = checkpoint.tensors.get("weights")
    if weights is None or weights.shape != (len(vms.FEATURES),) or not np.isfinite(weights).all():
        raise InputError(f"needs {len(vms.FEATURES)} finite numbers", file=folder, field="weights")
    return weights.astype(np.float64)
