"""Which policy decides for which schedulerName: read from, and written to, kube-system/proreus-schedulers.

The scheduling agents watch that ConfigMap, so a change counts from the next decision on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from proreus.engine.objects.error_messages import forbidden
from proreus.engine.objects.errors import BadRequest, Cause, Forbidden, NotFound, Unserviceable
from proreus.engine.objects.kinds import CONFIG_MAP, Kind
from proreus.engine.objects.names import label_value_problem
from proreus.engine.objects.promotions import NAME as PROMOTIONS
from proreus.engine.objects.promotions import Promotion, read_promotions
from proreus.engine.objects.registry import Registry
from proreus.engine.objects.scheduler_config import NAME, NAMESPACE, Chosen, admitted_choice, read_entry
from proreus.engine.objects.timestamps import timestamp
from proreus.model.errors import InputError, ProreusError, UsageError
from proreus.policies.policy_folders import NotAdmitted, PolicyFolders

_LONGEST = 253
_MOST_CAUSES = 8
_LOADING_SECONDS = 30.0
"""For one policy; code from elsewhere may do whatever it likes."""


async def chosen(registry: Registry) -> dict[str, Chosen]:
    """By the name of the scheduler; entries that cannot be read name their policy as a whole."""
    try:
        config_map = await registry.get(CONFIG_MAP, NAMESPACE, NAME)
    except NotFound:
        return {}
    return {name: _read(name, text) for name, text in (config_map.get("data") or {}).items()}


def _read(name: str, text: str) -> Chosen:
    try:
        return read_entry(name, text)
    except InputError:
        return Chosen(text.strip())


@dataclass(frozen=True)
class Troubles:
    """What is wrong with a choice."""

    refused: str = ""
    """Why it is not in effect."""
    failing: Mapping[str, str] = field(default_factory=dict)
    """What was wrong with the last answers of its policy and its shadow."""


NO_TROUBLES = Troubles()


async def promotions(registry: Registry) -> dict[str, Promotion]:
    """How far candidates have come, by the name of the scheduler."""
    try:
        return read_promotions(await registry.get(CONFIG_MAP, NAMESPACE, PROMOTIONS))
    except NotFound:
        return {}


def as_json(
    name: str, choice: Chosen, troubles: Troubles = NO_TROUBLES, promotion: Promotion | None = None
) -> dict[str, Any]:
    """For clients."""
    shown: dict[str, Any] = {
        "name": name,
        "policy": choice.policy,
        "shadow": choice.shadow,
        "deadline_ms": choice.deadline_ms,
    }
    if choice.candidate:
        shown |= {"candidate": choice.candidate, "share": choice.share}
        if promotion is not None and promotion.is_of(choice):
            shown["promotion"] = {
                "stage": promotion.stage,
                "since": timestamp(promotion.since),
                "stage_since": timestamp(promotion.stage_since),
                "judged": timestamp(promotion.judged) if promotion.judged else None,
                "told": promotion.told,
            }
    beside = {"refused": troubles.refused, "failing": dict(troubles.failing)}
    return {**shown, **{key: value for key, value in beside.items() if value}}


def read_choice(document: Any) -> Chosen:
    """The body of a switch; `BadRequest` names the field."""
    try:
        return msgspec.convert(document, Chosen)
    except msgspec.ValidationError as error:
        raise BadRequest(
            f"a scheduler is {{policy, shadow, deadline_ms, candidate, share}}: {error}"
        ) from None


async def check_policies(choice: Chosen, folders: PolicyFolders) -> None:
    """Load what is chosen, beside the event loop; `Forbidden` names the field that says what is not to be
    loaded, `BadRequest` the one that cannot decide."""
    # Imported when somebody asks: the rules bring their compiled kernels with them.
    from proreus.worlds.pods.policies.catalogue import POLICIES
    from proreus.worlds.pods.policies.wire_format import check_policy, pod_strangers

    named = (("policy", choice.policy), ("shadow", choice.shadow), ("candidate", choice.candidate))
    strangers = pod_strangers()
    try:
        for part, policy in named:
            if not policy:
                continue
            try:
                admitted = POLICIES.admitted(policy, folders)
                checking = asyncio.to_thread(check_policy, admitted, strangers)
                await asyncio.wait_for(checking, _LOADING_SECONDS)
            except NotAdmitted as error:
                raise Forbidden(f"{part}: {error}") from None
            except asyncio.CancelledError:  # only a server that ends gives up a request: no more than that
                raise Unserviceable("the server ends") from None
            except TimeoutError:
                raise BadRequest(f"{part}: has not been loaded for {_LOADING_SECONDS:g} s") from None
            except (ProreusError, ImportError) as error:
                raise BadRequest(f"{part}: {error}") from None
    finally:
        strangers.close()  # who is still being loaded is left behind, and holds no thread


def check_written(kind: Kind, obj: Mapping[str, Any], folders: PolicyFolders) -> None:
    """Refuse the ConfigMap of schedulers where it names policies that are not to be loaded.

    The scheduling agent does not load them either, whoever has written them.
    """
    metadata = obj["metadata"]
    if kind is not CONFIG_MAP or (metadata.get("namespace"), metadata.get("name")) != (NAMESPACE, NAME):
        return
    data = obj.get("data")
    causes = []
    for name, text in data.items() if isinstance(data, Mapping) else ():
        try:
            admitted_choice(read_entry(name, text if isinstance(text, str) else ""), folders)
        except NotAdmitted as error:
            causes.append(Cause(f"data.{name}", str(error), "FieldValueForbidden"))
        except (InputError, UsageError):
            continue  # it does not count, and is told so where it is read
    if causes:
        message = "; ".join(f"{cause.field}: {cause.message}" for cause in causes[:_MOST_CAUSES])
        raise forbidden(CONFIG_MAP, NAME, message, tuple(causes[:_MOST_CAUSES]))


async def switch(registry: Registry, name: str, choice: Chosen | None) -> None:
    """This policy decides for that scheduler from now on; None: the default, again."""
    if not name or len(name) > _LONGEST or label_value_problem(name):
        raise BadRequest(f"{name[:80]!r} is no name of a scheduler")
    text = None if choice is None else msgspec.json.encode(choice).decode()

    def change(standing: dict[str, Any]) -> dict[str, Any]:
        data = dict(standing.get("data") or {})
        if text is None:
            if name not in data:
                raise NotFound(f"nothing was chosen for the scheduler {name!r}")
            del data[name]
        else:
            data[name] = text
        return {**standing, "data": data}

    await registry.create_or_edit(CONFIG_MAP, {"metadata": {"name": NAME, "namespace": NAMESPACE}}, change)
