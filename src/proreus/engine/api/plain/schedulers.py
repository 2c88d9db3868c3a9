"""Which policy decides for which schedulerName: read from, and written to, kube-system/proreus-schedulers.

The scheduling agents watch that ConfigMap, so a change counts from the next decision on.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from proreus.engine.objects.errors import BadRequest, NotFound
from proreus.engine.objects.kinds import CONFIG_MAP
from proreus.engine.objects.names import label_value_problem
from proreus.engine.objects.registry import Registry

NAMESPACE, NAME = "kube-system", "proreus-schedulers"
_LONGEST = 253


class Chosen(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """Who decides, who is asked beside it, and how long a decision may take."""

    policy: Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
    shadow: Annotated[str, msgspec.Meta(max_length=1024)] = ""
    deadline_ms: Annotated[float, msgspec.Meta(gt=0, le=10_000)] = 100.0


async def chosen(registry: Registry) -> dict[str, Chosen]:
    """By the name of the scheduler; entries that cannot be read name their policy as a whole."""
    try:
        found = await registry.get(CONFIG_MAP, NAMESPACE, NAME)
    except NotFound:
        return {}
    return {name: _read(text) for name, text in (found.get("data") or {}).items()}


def _read(text: str) -> Chosen:
    try:
        return msgspec.json.decode(text, type=Chosen)
    except msgspec.MsgspecError:
        return Chosen(text.strip())


def as_json(name: str, one: Chosen) -> dict[str, Any]:
    """For clients."""
    return {"name": name, "policy": one.policy, "shadow": one.shadow, "deadline_ms": one.deadline_ms}


def read_choice(document: Any) -> Chosen:
    """The body of a switch; `BadRequest` names the field."""
    try:
        return msgspec.convert(document, Chosen)
    except msgspec.ValidationError as error:
        raise BadRequest(f"a scheduler is {{policy, shadow, deadline_ms}}: {error}") from None


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
