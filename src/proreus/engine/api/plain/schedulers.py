"""Which policy decides for which schedulerName: read from, and written to, kube-system/proreus-schedulers.

The scheduling agents watch that ConfigMap, so a change counts from the next decision on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from proreus.engine.objects.errors import BadRequest, NotFound
from proreus.engine.objects.kinds import CONFIG_MAP
from proreus.engine.objects.names import label_value_problem
from proreus.engine.objects.registry import Registry
from proreus.engine.objects.schedulers import NAME, NAMESPACE, Chosen, read_entry
from proreus.model.errors import InputError, ProreusError
from proreus.worlds.pods.policies.catalogue import make_policy

_LONGEST = 253
_LOADING_SECONDS = 30.0
"""For one policy; code from elsewhere may do whatever it likes."""


async def chosen(registry: Registry) -> dict[str, Chosen]:
    """By the name of the scheduler; entries that cannot be read name their policy as a whole."""
    try:
        found = await registry.get(CONFIG_MAP, NAMESPACE, NAME)
    except NotFound:
        return {}
    return {name: _read(name, text) for name, text in (found.get("data") or {}).items()}


def _read(name: str, text: str) -> Chosen:
    try:
        return read_entry(name, text)
    except InputError:
        return Chosen(text.strip())


def as_json(
    name: str, one: Chosen, refused: str = "", failing: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """For clients; refused: why it is not in effect; failing: what was wrong with its last answers."""
    told = {"name": name, "policy": one.policy, "shadow": one.shadow, "deadline_ms": one.deadline_ms}
    beside = {"refused": refused, "failing": dict(failing or {})}
    return {**told, **{key: value for key, value in beside.items() if value}}


def read_choice(document: Any) -> Chosen:
    """The body of a switch; `BadRequest` names the field."""
    try:
        return msgspec.convert(document, Chosen)
    except msgspec.ValidationError as error:
        raise BadRequest(f"a scheduler is {{policy, shadow, deadline_ms}}: {error}") from None


async def check_policies(choice: Chosen) -> None:
    """Load what is chosen, beside the event loop; `BadRequest` names the field that cannot decide."""
    for field, policy in (("policy", choice.policy), ("shadow", choice.shadow)):
        if not policy:
            continue
        try:
            await asyncio.wait_for(asyncio.to_thread(make_policy, policy), _LOADING_SECONDS)
        except TimeoutError:
            raise BadRequest(f"{field}: has not been loaded for {_LOADING_SECONDS:g} s") from None
        except (ProreusError, ImportError) as error:
            raise BadRequest(f"{field}: {error}") from None


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

    try:
        await registry.edit(CONFIG_MAP, NAMESPACE, NAME, change)
    except NotFound:
        if text is None:
            raise
        await registry.create(
            CONFIG_MAP, {"metadata": {"name": NAME, "namespace": NAMESPACE}, "data": {name: text}}
        )
