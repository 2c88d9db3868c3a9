"""`proreus exec POD -- COMMAND...`: run a command in a pod, with its output and its exit code."""

from __future__ import annotations

import base64
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import tyro

from proreus.cli.arguments import parse, prepare
from proreus.cli.cluster.messages import Body
from proreus.cli.cluster.names import path_of
from proreus.cli.cluster.place import Where
from proreus.cli.cluster.pods import pod_of
from proreus.cli.output import Output, write_json
from proreus.engine.objects.kinds import POD
from proreus.model.errors import UsageError

_DESCRIPTION = """Run a command in a pod, and end with its exit code.

Example: proreus exec web-6d4c9-x2x1z -- sh -c 'echo hello'"""


@dataclass(frozen=True)
class ExecArguments:
    """Flags of `proreus exec`."""

    pod: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="POD|KIND/NAME")] = ""
    """Where."""
    namespace: Annotated[str, tyro.conf.arg(aliases=("-n",))] = "default"
    """In which namespace."""
    container: Annotated[str, tyro.conf.arg(aliases=("-c",))] = ""
    """Which container, where the pod has several."""
    stdin: Annotated[bool, tyro.conf.arg(aliases=("-i",))] = False
    """Hand what comes on stdin to the command, to its end."""
    where: Where = field(default_factory=Where)
    common: Output = field(default_factory=Output)


def run(words: Sequence[str]) -> int:
    """Run the command that follows --."""
    words = list(words)
    place = words.index("--") if "--" in words else len(words)
    arguments = parse(ExecArguments, "proreus exec", words[:place], _DESCRIPTION)
    prepare(arguments.common)
    command = words[place + 1 :]
    if not arguments.pod or not command:
        raise UsageError("name a pod and a command: proreus exec POD -- COMMAND...")
    asked: dict[str, Any] = {"command": command}
    if arguments.container:
        asked["container"] = arguments.container
    if arguments.stdin:
        asked["stdin"] = base64.b64encode(sys.stdin.buffer.read()).decode()
    with arguments.where.open() as client:
        name = pod_of(client, arguments.pod, arguments.namespace)
        path = path_of(POD, arguments.namespace, name, "exec").replace("/api/v1/", "/v1/", 1)
        ended = client.ask("POST", path, body=Body.of(asked)).content
    said = {stream: base64.b64decode(ended.get(stream, "")) for stream in ("stdout", "stderr")}
    _copy(said, to_stdout=not arguments.common.json_to_stdout, quiet=arguments.common.quiet)
    told = {stream: text.decode(errors="replace") for stream, text in said.items()}
    write_json(arguments.common, {"exitCode": ended["exitCode"], **told})
    return int(ended["exitCode"])


def _copy(said: dict[str, bytes], *, to_stdout: bool, quiet: bool) -> None:
    """What the command printed, where it would have printed it."""
    if quiet:
        return
    for text, stream in (
        (said["stdout"], sys.stdout if to_stdout else sys.stderr),
        (said["stderr"], sys.stderr),
    ):
        stream.write(text.decode(errors="replace"))
        stream.flush()
