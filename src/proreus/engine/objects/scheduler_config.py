"""Which policy decides for which schedulerName, as the ConfigMap kube-system/proreus-schedulers says it.

Each key of the ConfigMap is a schedulerName; its value is the name of a policy as everywhere in Proreus (a
rule, `learned`, a checkpoint, a run, `file.py:Class`, `module:Class`), or a JSON object:

    default-scheduler: kube
    experiment: '{"policy": "runs/x", "shadow": "kube_plus", "deadline_ms": 20}'
    careful: '{"policy": "kube", "candidate": "runs/x", "share": 0.2}'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from proreus.model.errors import InputError
from proreus.policies.policy_folders import NotAdmitted, PolicyFolders

NAMESPACE, NAME = "kube-system", "proreus-schedulers"
DEFAULT_SCHEDULER = "default-scheduler"
"""Of pods that name none."""
_LONGEST = 1024
_MOST_MILLISECONDS = 10_000.0


class Chosen(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """Who decides for a schedulerName."""

    policy: Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST)]
    shadow: Annotated[str, msgspec.Meta(max_length=_LONGEST)] = ""
    """Asked beside the policy; what it would have done is recorded and not done."""
    deadline_ms: Annotated[float, msgspec.Meta(gt=0, le=_MOST_MILLISECONDS)] = 100.0
    """For one decision, before the kube rules decide."""
    candidate: Annotated[str, msgspec.Meta(max_length=_LONGEST)] = ""
    """To take the policy's place by and by, if it does better: in the shadow, then for a share of the pods,
    then for all."""
    share: Annotated[float, msgspec.Meta(gt=0, le=0.5)] = 0.1
    """Of the pods, for which a candidate decides before it decides for all."""


@dataclass(frozen=True)
class SchedulerChoices:
    """What a ConfigMap chooses, entry by entry."""

    chosen: dict[str, Chosen] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    """What is wrong with an entry; the others count all the same."""


def read_chosen(obj: Mapping[str, Any] | None) -> SchedulerChoices:
    """The choices of a ConfigMap; whether there are such policies is for others to find out."""
    data: Mapping[str, str] = {} if obj is None else obj.get("data") or {}
    scheduler_choices = SchedulerChoices()
    for name, text in data.items():
        try:
            scheduler_choices.chosen[name] = read_entry(name, text)
        except InputError as error:
            scheduler_choices.refused[name] = str(error)
    return scheduler_choices


def read_entry(name: str, text: str) -> Chosen:
    """One value of the ConfigMap."""
    text = text.strip()
    if not text:
        raise InputError("names no policy", field=f"data.{name}")
    if not text.startswith("{"):
        return Chosen(text)
    try:
        return msgspec.json.decode(text, type=Chosen)
    except msgspec.DecodeError as error:
        raise InputError(str(error), field=f"data.{name}") from None


def admitted_choice(chosen: Chosen, folders: PolicyFolders) -> Chosen:
    """The same with the names by which its policies are loaded; `NotAdmitted` names the field that says what
    is not to be loaded."""
    # Only here: a process that decides nothing starts without the compiler of what does.
    from proreus.worlds.pods.policies.catalogue import POLICIES

    names: dict[str, str] = {}
    for part in ("policy", "shadow", "candidate"):
        name = getattr(chosen, part)
        try:
            names[part] = POLICIES.admitted(name, folders) if name else ""
        except NotAdmitted as error:
            raise NotAdmitted(f"{part}: {error}") from None
    return msgspec.structs.replace(chosen, **names)
