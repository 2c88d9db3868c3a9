"""Whether the API of a cluster answers without a token, noted where agents of other machines see it.

An agent whose pods are real joins no such cluster: whoever reached that API would run commands there. The
note is the ConfigMap kube-system/proreus-api.
"""

from __future__ import annotations

from proreus.engine.objects.errors import NotFound
from proreus.engine.objects.kinds import CONFIG_MAP
from proreus.engine.objects.registry import Registry
from proreus.model.errors import UsageError

NAMESPACE, NAME = "kube-system", "proreus-api"
_KEY, _ANYBODY, _BY_TOKEN = "answers", "anybody", "by-token"


async def note_access(registry: Registry, *, by_token: bool) -> None:
    """What the API that is opened now asks for."""
    data = {_KEY: _BY_TOKEN if by_token else _ANYBODY}
    named = {"metadata": {"name": NAME, "namespace": NAMESPACE}}
    await registry.create_or_edit(CONFIG_MAP, named, lambda standing: {**standing, "data": data})


async def check_access(registry: Registry) -> None:
    """Raise `UsageError` where anybody may write the pods that would run here."""
    try:
        standing = await registry.get(CONFIG_MAP, NAMESPACE, NAME)
    except NotFound:
        return
    if (standing.get("data") or {}).get(_KEY) == _ANYBODY:
        raise UsageError(
            "the API of this cluster answers without a token, so anybody on its machine would run commands "
            "here: start its `proreus up` with --token-file"
        )
