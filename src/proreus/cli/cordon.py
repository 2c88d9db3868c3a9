"""`proreus cordon NODE...` and `proreus uncordon NODE...`: whether nodes get new pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import tyro

from proreus.cli.arguments import parse, prepare
from proreus.cli.cluster.argument_order import flags_first
from proreus.cli.cluster.messages import Body
from proreus.cli.cluster.resource_names import path_of
from proreus.cli.cluster.state_dir import Where
from proreus.cli.output import Output, new_console, write_json
from proreus.engine.objects.kinds import NODE
from proreus.model.errors import UsageError

if TYPE_CHECKING:
    from proreus.cli.cluster.client import Client

_MERGE = "application/merge-patch+json"


@dataclass(frozen=True)
class CordonArguments:
    """Flags of `proreus cordon` and `proreus uncordon`."""

    nodes: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="NODE...")] = ()
    """Which nodes."""
    where: Where = field(default_factory=Where)
    common: Output = field(default_factory=Output)


def run(words: Sequence[str]) -> int:
    """No new pods for these nodes."""
    return mark("cordon", words, unschedulable=True)


def mark(verb: str, words: Sequence[str], *, unschedulable: bool) -> int:
    """Mark nodes, and say which were not so before."""
    does = (
        "No new pods go to these nodes; what runs there stays" if unschedulable else "Pods may go there again"
    )
    words = flags_first(CordonArguments, words)
    arguments = parse(CordonArguments, f"proreus {verb}", words, f"{does}.\n\nExample: proreus {verb} node-1")
    prepare(arguments.common)
    if not arguments.nodes:
        raise UsageError(f"name a node: proreus {verb} node-1")
    console = new_console(arguments.common)
    changed = []
    with arguments.where.open() as client:
        for node in arguments.nodes:
            new = set_unschedulable(client, node, unschedulable)
            console.print(f"node/{node} {'' if new else 'already '}{verb}ed", highlight=False, soft_wrap=True)
            changed += [node] if new else []
    write_json(arguments.common, {"nodes": list(arguments.nodes), "changed": changed})
    return 0


def set_unschedulable(client: Client, node: str, unschedulable: bool) -> bool:
    """Whether that changed anything."""
    path = path_of(NODE, name=node)
    if bool(client.get(path).get("spec", {}).get("unschedulable")) == unschedulable:
        return False
    client.ask("PATCH", path, body=Body.of({"spec": {"unschedulable": unschedulable or None}}, _MERGE))
    return True
