"""How far a candidate has come: in the shadow, for a share of the pods, for all of them, or refused.

The state stands in the ConfigMap kube-system/proreus-promotions, a key for each schedulerName: written by
whoever leads, followed by the scheduling agents, and there for everybody to read.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Literal, assert_never

import msgspec

from proreus.engine.objects.scheduler_config import Chosen

NAME = "proreus-promotions"
Stage = Literal["shadow", "share", "all", "refused"]


class Promotion(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a candidate stands; moments are seconds since 1970."""

    policy: str
    """That decided when the candidate was put up."""
    candidate: str
    since: float
    """When it was put up: nobody can have learned from what happened after that."""
    stage: Stage = "shadow"
    stage_since: float = 0.0
    judged: float = 0.0
    told: str = ""
    """What the last judgement said."""
    pods: int = 0
    """That have come since it was put up, as far as they are counted: up to `needed`."""
    needed: int = 0
    """So many must have come before it is judged; 0: nobody has said."""

    @property
    def progress(self) -> str:
        """How far it is to a judgement, in words; "": it has all that it needs."""
        return f"{self.pods} of {self.needed} pods have come" if self.pods < self.needed else ""

    def is_of(self, chosen: Chosen) -> bool:
        """Whether it is about what is chosen now."""
        return (self.policy, self.candidate) == (chosen.policy, chosen.candidate)


def read_promotions(obj: Mapping[str, Any] | None) -> dict[str, Promotion]:
    """By schedulerName; what cannot be read begins anew."""
    promotions: dict[str, Promotion] = {}
    for name, text in (({} if obj is None else obj.get("data")) or {}).items():
        try:
            promotions[name] = msgspec.json.decode(text, type=Promotion)
        except (msgspec.DecodeError, TypeError):
            continue
    return promotions


def written(promotions: Mapping[str, Promotion]) -> dict[str, str]:
    """As the ConfigMap has it."""
    return {name: msgspec.json.encode(promotion).decode() for name, promotion in sorted(promotions.items())}


def in_share(uid: str, share: float) -> bool:
    """Whether a pod is one of the share: by its uid alone, so that everybody says the same for ever."""
    return int.from_bytes(blake2b(uid.encode(), digest_size=8).digest()) < share * 2**64


def deciding(chosen: Chosen, promotion: Promotion | None, uid: str) -> Chosen:
    """Who decides about this pod, and who is asked beside."""
    if not chosen.candidate:
        return chosen
    present, taken_up, alone = _ways(chosen)
    stage = promotion.stage if promotion is not None and promotion.is_of(chosen) else "shadow"
    match stage:
        case "shadow":
            return present
        case "share":
            return taken_up if in_share(uid, chosen.share) else present
        case "all":
            return taken_up
        case "refused":
            return alone
        case _:
            assert_never(stage)


def ways(chosen: Chosen) -> tuple[Chosen, ...]:
    """All that `deciding` may answer."""
    return _ways(chosen) if chosen.candidate else (chosen,)


def _ways(chosen: Chosen) -> tuple[Chosen, Chosen, Chosen]:
    return (
        Chosen(chosen.policy, chosen.candidate, chosen.deadline_ms),
        Chosen(chosen.candidate, chosen.policy, chosen.deadline_ms),
        Chosen(chosen.policy, chosen.shadow, chosen.deadline_ms),
    )
