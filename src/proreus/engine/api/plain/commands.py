"""Commands in containers: one request, one answer with what the command printed and how it ended."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any

import msgspec

from proreus.engine.api.asking import Asked
from proreus.engine.api.replying import Reply
from proreus.engine.api.roles import Action, check
from proreus.engine.api.subresources import container_of
from proreus.engine.objects.errors import BadRequest
from proreus.engine.objects.kinds import POD
from proreus.engine.objects.registry import Registry
from proreus.engine.runtimes.protocol import PodExec, RuntimeRefused

_MOST_SECONDS = 300.0


class _Wanted(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    command: Annotated[list[str], msgspec.Meta(min_length=1, max_length=1024)]
    container: str = ""
    stdin: str = ""
    """In base64, as what the command prints."""
    timeout_seconds: Annotated[float, msgspec.Meta(gt=0, le=_MOST_SECONDS)] = 60.0


class Commands:
    """Runs them where the pods are."""

    def __init__(self, registry: Registry, runs: PodExec | None) -> None:
        self._registry, self._runs = registry, runs

    async def run(self, namespace: str, name: str, asked: Asked) -> Reply:
        """The command's end and output."""
        asked.doing = "create"
        check(asked.identity, Action("create", "pods/exec", namespace, name))
        wanted = _read(await asked.document())
        pod = await self._registry.get(POD, namespace, name)
        if self._runs is None:
            raise BadRequest("no runtime of this engine runs commands")
        container = container_of(pod, wanted.container)
        stdin = _decoded(wanted.stdin)
        try:
            done = await self._runs.execute(
                pod["metadata"]["uid"], container, wanted.command, stdin, wanted.timeout_seconds
            )
        except RuntimeRefused as refused:
            raise BadRequest(str(refused)) from refused
        printed = {"stdout": done.stdout, "stderr": done.stderr}
        told: dict[str, Any] = {key: base64.b64encode(text).decode() for key, text in printed.items()}
        return Reply.of({"exitCode": done.exit_code, **told})


def _read(document: Any) -> _Wanted:
    try:
        return msgspec.convert(document, _Wanted)
    except msgspec.ValidationError as error:
        raise BadRequest(f"a command is {{command, container, stdin, timeout_seconds}}: {error}") from None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest("stdin: it is not base64") from None
