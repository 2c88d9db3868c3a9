"""Which policy decides for which schedulerName: defaults, and the ConfigMap kube-system/proreus-schedulers.

Each key of the ConfigMap is a schedulerName; its value is the name of a policy as everywhere in Proreus (a
rule, `learned`, a checkpoint, a run, `file.py:Class`, `module:Class`), or a JSON object:

    default-scheduler: kube
    experiment: '{"policy": "runs/x", "shadow": "kube_plus", "deadline_ms": 20}'

Without an entry, `default-scheduler` is `kube`, and the name of a rule, of the shipped checkpoint or of a
folder of models stands for itself. Pods with any other schedulerName are somebody else's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from proreus.engine.agents.scheduling.values import Object
from proreus.model.errors import InputError
from proreus.policies.checkpoint import is_checkpoint
from proreus.worlds.pods.policies.catalogue import POLICIES

NAMESPACE, NAME = "kube-system", "proreus-schedulers"
DEFAULT_SCHEDULER = "default-scheduler"
RULE = "kube"
"""Decides by default, and where another policy is slow, unsure, wrong or fails."""
_MOST_MILLISECONDS = 10_000.0
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Who decides for a schedulerName."""

    policy: str
    shadow: str = ""
    """Asked beside the policy; what it would have done is recorded and not done."""
    deadline: float = 0.1
    """Seconds for one decision, before the kube rules decide."""


class _Wire(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    policy: Annotated[str, msgspec.Meta(min_length=1)]
    shadow: str = ""
    deadline_ms: Annotated[float, msgspec.Meta(gt=0, le=_MOST_MILLISECONDS)] = 100.0


@dataclass(frozen=True)
class Schedulers:
    """Who decides for whom, as it was chosen last."""

    chosen: Mapping[str, Chosen]
    default: Chosen = Chosen(RULE)
    """For `default-scheduler`, where the ConfigMap does not say."""
    models: Path | None = None
    """A folder of checkpoints and training runs whose names stand for themselves."""

    def named(self, scheduler: str) -> Chosen | None:
        """Who decides for that schedulerName; None: it is somebody else's."""
        found = self.chosen.get(scheduler)
        if found is not None:
            return found
        if scheduler == DEFAULT_SCHEDULER:
            return self.default
        if scheduler in POLICIES.names:
            return Chosen(scheduler)
        # The name comes from whoever may create pods: it must not lead out of the folder.
        if self.models is None or not _PLAIN.fullmatch(scheduler):
            return None
        folder = self.models / scheduler
        return Chosen(str(folder)) if is_checkpoint(folder) or is_checkpoint(folder / "best") else None


def read_chosen(obj: Object | None) -> dict[str, Chosen]:
    """What a ConfigMap chooses; an InputError names the entry that cannot be meant."""
    data: Mapping[str, str] = {} if obj is None else obj.get("data") or {}
    return {name: _chosen(name, text) for name, text in data.items()}


def _chosen(name: str, text: str) -> Chosen:
    text = text.strip()
    if not text:
        raise InputError("names no policy", field=f"data.{name}")
    if not text.startswith("{"):
        return Chosen(text)
    try:
        wire = msgspec.json.decode(text, type=_Wire)
    except msgspec.DecodeError as error:
        raise InputError(str(error), field=f"data.{name}") from None
    return Chosen(wire.policy, wire.shadow, wire.deadline_ms / 1000.0)
