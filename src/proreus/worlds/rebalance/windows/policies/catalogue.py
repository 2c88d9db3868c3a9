"""Every policy that moves pods between windows, by name, in one literal."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from proreus.kernels.arrays import F64
from proreus.model.errors import InputError, UsageError, unknown_name
from proreus.policies.checkpoint import CARD, is_checkpoint, load_checkpoint
from proreus.worlds.rebalance.windows.encoding import FEATURES, VERSION
from proreus.worlds.rebalance.windows.policies.columns import BALANCE, HOTSPOT, LEARNED, NOTHING, RANDOM
from proreus.worlds.rebalance.windows.policies.policy import MovePolicy

KIND = "moves"
PRETRAINED = Path(__file__).resolve().parents[1] / "pretrained" / "moves"
MOVE_POLICIES: dict[str, tuple[str, int]] = {
    "nothing": ("never moves a pod", NOTHING),
    "random": ("any legal move, or none", RANDOM),
    "hotspot": ("cools the hottest node while it is above the threshold; hotspot@0.6: above 60 %", HOTSPOT),
    "balance": ("the move that lowers the variance of loads most", BALANCE),
    "learned": ("the checkpoint that ships with the package", LEARNED),
}


def make_move_policy(name: str, seed: int = 0) -> MovePolicy:
    """The policy of that name, or the checkpoint at that path; a UsageError names the nearest one known."""
    plain, at, level = name.partition("@")
    if at and plain == "hotspot":
        return MovePolicy(name, HOTSPOT, seed, level=_level(name, level))
    if name in MOVE_POLICIES and MOVE_POLICIES[name][1] != LEARNED:
        return MovePolicy(name, MOVE_POLICIES[name][1], seed)
    places = [PRETRAINED] if name == "learned" else [Path(name), Path(name) / "best"]
    for folder in places:
        if is_checkpoint(folder):
            return MovePolicy(name, LEARNED, seed, weights=move_weights(folder))
    raise unknown_name("policy", name, MOVE_POLICIES)


def _level(name: str, text: str) -> float:
    try:
        level = float(text)
    except ValueError:
        level = np.nan
    if not 0.0 < level <= 1.0:
        raise UsageError(f"policy {name!r}: after @ comes the share above which a node is hot, such as 0.6")
    return level


def move_weights(folder: Path) -> F64:
    """[features] of the scorer whose checkpoint is in `folder`."""
    checkpoint = load_checkpoint(folder, VERSION)
    if checkpoint.card.world != "rebalance" or checkpoint.card.kind != KIND:
        raise InputError(
            f"a {checkpoint.card.kind!r} policy for {checkpoint.card.world!r} cannot move pods",
            file=folder / CARD,
        )
    weights = checkpoint.tensors.get("weights")
    if weights is None or weights.shape != (len(FEATURES),) or not np.isfinite(weights).all():
        raise InputError(f"needs {len(FEATURES)} finite numbers", file=folder, field="weights")
    return weights.astype(np.float64)
