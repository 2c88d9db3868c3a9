"""A command in a container, asked for and answered in one piece of JSON."""

from __future__ import annotations

import base64
from typing import Annotated

import msgspec

from proreus.engine.api.asking import Asked
from proreus.engine.api.pods import container_of
from proreus.engine.api.replying import Reply
from proreus.engine.objects.errors import BadRequest
from proreus.engine.runtimes.protocol import Pod, PodExec, RuntimeRefused

_Word = Annotated[str, msgspec.Meta(max_length=65_536)]


class _Command(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    command: Annotated[list[_Word], msgspec.Meta(min_length=1, max_length=4096)]
    container: str = ""
    stdin: bytes = b""


async def execute(runner: PodExec | None, pod: Pod, asked: Asked) -> Reply:
    """Run it in the pod; exit code and output, these as base64."""
    try:
        wanted = msgspec.convert(await asked.document(), _Command)
    except msgspec.ValidationError as error:
        raise BadRequest(f"a command is {{command, container, stdin}}: {error}") from None
    if runner is None:
        raise BadRequest("no runtime of this engine runs commands")
    container = container_of(pod, wanted.container)
    try:
        ended = await runner.execute(pod["metadata"]["uid"], container, wanted.command, wanted.stdin)
    except RuntimeRefused as refused:
        raise BadRequest(str(refused)) from refused
    return Reply.of(
        {
            "exitCode": ended.exit_code,
            "stdout": base64.b64encode(ended.stdout).decode(),
            "stderr": base64.b64encode(ended.stderr).decode(),
        }
    )
