"""`proreus top [nodes|pods]`: what nodes and pods of a running cluster use, as it changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from proreus.cli.arguments import parse, prepare
from proreus.cli.cluster.messages import ApiRefused
from proreus.cli.cluster.state_dir import Where
from proreus.cli.cluster.usage_tables import NAMESPACE, NODES, PODS, TREND_POINTS, lines
from proreus.cli.live_screen import screen
from proreus.cli.output import Output, new_console, write_json
from proreus.model.errors import UsageError, WorkError

if TYPE_CHECKING:
    from proreus.cli.cluster.client import Client

_DESCRIPTION = """What nodes and pods of a running cluster use, as it changes; in a pipe, once.

Example: proreus top nodes; proreus top pods -A --sort memory; proreus top pods -o json"""
_HEAD_LINES = 4
"""Of the screen, that are no rows."""
_FASTEST, _SLOWEST = 0.2, 3600.0
_NOT_FOUND = 404


@dataclass(frozen=True)
class TopArguments:
    """Flags of `proreus top`."""

    what: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[nodes|pods]")] = ()
    """Of what."""
    namespace: Annotated[str, tyro.conf.arg(aliases=("-n",))] = "default"
    """Pods of which namespace."""
    all_namespaces: Annotated[bool, tyro.conf.arg(aliases=("-A",))] = False
    """Pods of all of them."""
    selector: Annotated[str, tyro.conf.arg(aliases=("-l",))] = ""
    """Only those with these labels, as app=web,tier!=test."""
    sort: Literal["cpu", "memory", "name"] = "cpu"
    """What uses most of this comes first."""
    output: Annotated[Literal["table", "json"], tyro.conf.arg(aliases=("-o",))] = "table"
    """In which form; json: once, with everything that is measured."""
    once: bool = False
    """Show it once, on a terminal, too."""
    every: Annotated[float, tyro.conf.arg(metavar="SECONDS")] = 2.0
    """How often to ask; nodes measure themselves every 10 s."""
    where: Where = field(default_factory=Where)
    common: Output = field(default_factory=Output)


def run(words: Sequence[str]) -> int:
    """Show what is used."""
    arguments = parse(TopArguments, "proreus top", words, _DESCRIPTION)
    prepare(arguments.common)
    what = _what(arguments.what)
    if not _FASTEST <= arguments.every <= _SLOWEST:
        raise UsageError(f"--every {arguments.every:g} is outside {_FASTEST:g}..{_SLOWEST:g}")
    console = new_console(arguments.common)
    once = arguments.once or not console.is_terminal or arguments.common.json is not None
    with arguments.where.open() as client:
        if once or arguments.output == "json":
            usage = _ask(client, what, arguments)
            if arguments.output == "json":
                console.print(json.dumps(usage, indent=2), soft_wrap=True, highlight=False)
            else:
                for line in _frame(what, usage, arguments, console.width):
                    console.print(line, soft_wrap=True, highlight=False)
            write_json(arguments.common, usage)
            return 0
        try:
            with screen(console, 1.0 / arguments.every) as show:
                while True:
                    room = max(1, console.height - _HEAD_LINES)
                    usage = _ask(client, what, arguments, limit=room)
                    show(_frame(what, usage, arguments, console.width))
        except KeyboardInterrupt:  # the way to end it
            return 0


def _what(words: Sequence[str]) -> str:
    match [word.lower() for word in words]:
        case [] | ["pods" | "pod" | "po"]:
            return "pods"
        case ["nodes" | "node" | "no"]:
            return "nodes"
        case _:
            raise UsageError(f"top {' '.join(words)[:80]}: it shows nodes or pods")


def _ask(client: Client, what: str, arguments: TopArguments, limit: int = 0) -> dict[str, Any]:
    query = {
        "sort": arguments.sort,
        "points": str(TREND_POINTS),
        "labelSelector": arguments.selector,
        "limit": str(limit),
    }
    if what == "pods" and not arguments.all_namespaces:
        query["namespace"] = arguments.namespace
    try:
        usage: dict[str, Any] = client.get(f"/v1/use/{what}", query)
    except ApiRefused as refused:
        if refused.code == _NOT_FOUND:
            message = f"{client.address.server} is no engine of Proreus: ask it with `kubectl top`"
            raise WorkError(message) from refused
        raise
    return usage


def _frame(what: str, usage: dict[str, Any], arguments: TopArguments, width: int) -> list[str]:
    rows = usage[what]
    if not rows:
        place = "" if what == "nodes" or arguments.all_namespaces else f" in namespace {arguments.namespace}"
        return [f"no {what} that were measured{place}: nodes measure themselves every 10 s"]
    columns = NODES if what == "nodes" else PODS
    if what == "pods" and arguments.all_namespaces:
        columns = (NAMESPACE, *columns)
    shown = lines(columns, rows, width)
    left = usage["total"] - len(rows)
    return [*shown, f"and {left:,} more"] if left else shown
