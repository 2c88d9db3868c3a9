"""`proreus logs POD`: what a pod has printed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import tyro

from proreus.cli.arguments import parse, prepare
from proreus.cli.cluster.resource_names import path_of, pod_of
from proreus.cli.cluster.state_dir import Where
from proreus.cli.output import Output
from proreus.engine.objects.kinds import POD
from proreus.model.errors import UsageError

_DESCRIPTION = """What a pod has printed; of a Deployment, ReplicaSet or Job, that of its first pod.

Example: proreus logs web-6d4c9-x2x1z --tail 20 --follow; proreus logs deployment/web"""


@dataclass(frozen=True)
class LogsArguments:
    """Flags of `proreus logs`."""

    pod: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="POD|KIND/NAME")] = ""
    """Whose."""
    namespace: Annotated[str, tyro.conf.arg(aliases=("-n",))] = "default"
    """In which namespace."""
    container: Annotated[str, tyro.conf.arg(aliases=("-c",))] = ""
    """Which container, where the pod has several."""
    follow: Annotated[bool, tyro.conf.arg(aliases=("-f",))] = False
    """Go on with what it prints."""
    previous: Annotated[bool, tyro.conf.arg(aliases=("-p",))] = False
    """Of the container before it was restarted."""
    tail: int | None = None
    """The last so many lines."""
    since: Annotated[float | None, tyro.conf.arg(metavar="SECONDS")] = None
    """What was printed in the last so many seconds."""
    timestamps: bool = False
    """With the time before each line."""
    where: Where = field(default_factory=Where)
    common: Output = field(default_factory=Output)

    def __post_init__(self) -> None:
        if not self.pod:
            raise UsageError("name a pod: proreus logs POD")
        if self.tail is not None and self.tail < 0:
            raise UsageError(f"--tail {self.tail} is negative")
        if self.since is not None and not 0 < self.since < 1e9:
            raise UsageError(f"--since {self.since} is not a number of seconds above 0")
        if self.common.json is not None:
            raise UsageError("a log is no JSON: leave --json out")


def run(words: Sequence[str]) -> int:
    arguments = parse(LogsArguments, "proreus logs", words, _DESCRIPTION)
    prepare(arguments.common)
    asked = {
        "container": arguments.container,
        "follow": "true" if arguments.follow else "",
        "previous": "true" if arguments.previous else "",
        "timestamps": "true" if arguments.timestamps else "",
        "tailLines": "" if arguments.tail is None else str(arguments.tail),
        "sinceSeconds": "" if arguments.since is None else str(max(1, round(arguments.since))),
    }
    with arguments.where.open() as client:
        name = pod_of(client, arguments.pod, arguments.namespace)
        path = path_of(POD, arguments.namespace, name, "log")
        given = {name: value for name, value in asked.items() if value}
        with client.stream(path, given, accept="*/*") as answer:
            for text in answer.iter_text():
                if not arguments.common.quiet:
                    sys.stdout.write(text)
                    sys.stdout.flush()
    return 0
