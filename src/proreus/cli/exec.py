"""`proreus exec POD -- COMMAND...`: run a command in a pod, with its streams and its exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import tyro

from proreus.cli.arguments import parse, prepare
from proreus.cli.cluster.resource_names import path_of, pod_of
from proreus.cli.cluster.state_dir import Where
from proreus.cli.cluster.terminal import is_terminal
from proreus.cli.output import Output, write_json
from proreus.engine.objects.kinds import POD
from proreus.model.errors import UsageError, needs_extra

_DESCRIPTION = """Run a command in a pod, and end with its exit code.

Example: proreus exec web-6d4c9-x2x1z -- sh -c 'echo hello'; proreus exec -i -t web-6d4c9-x2x1z -- sh"""
_MOST_KEPT = 16 * 1024 * 1024
"""Bytes of each stream that --json tells."""


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
    """Hand what comes on stdin to the command, as it comes and to its end."""
    tty: Annotated[bool, tyro.conf.arg(aliases=("-t",))] = False
    """Run the command in a terminal, and lend it this one."""
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
    if arguments.tty and not (arguments.stdin and is_terminal()):
        raise UsageError(
            "--tty lends this terminal to the command: it needs --stdin, and stdin to be a terminal"
        )
    said = _Said(to_stdout=not arguments.common.json_to_stdout, quiet=arguments.common.quiet)
    with arguments.where.open() as client:
        try:
            from proreus.cli.cluster.exec_session import Talk, talk
        except ModuleNotFoundError as error:
            raise UsageError(f"talking to a command {needs_extra('engine')} ({error})") from error
        name = pod_of(client, arguments.pod, arguments.namespace)
        path = path_of(POD, arguments.namespace, name, "exec")
        wanted = Talk(path, arguments.container, tuple(command), arguments.stdin, arguments.tty)
        code = talk(client.address, wanted, said.take)
    streams = {stream: bytes(text).decode(errors="replace") for stream, text in said.kept.items()}
    write_json(arguments.common, {"exitCode": code, **streams})
    return code


class _Said:
    """What the command prints: shown as it comes, where it would have printed it, and kept for the JSON."""

    def __init__(self, *, to_stdout: bool, quiet: bool) -> None:
        self._quiet = quiet
        self._shown = {1: sys.stdout if to_stdout else sys.stderr, 2: sys.stderr}
        self.kept = {"stdout": bytearray(), "stderr": bytearray()}

    def take(self, stream: int, data: bytes) -> None:
        kept = self.kept["stdout" if stream == 1 else "stderr"]
        kept += data[: _MOST_KEPT - len(kept)]
        if not self._quiet:
            self._shown[stream].buffer.write(data)
            self._shown[stream].buffer.flush()
