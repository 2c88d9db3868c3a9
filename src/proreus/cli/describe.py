"""`proreus describe KIND NAME`: one object in words, with the reasons of the decision and its events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from proreus.cli.arguments import parse, prepare
from proreus.cli.cluster.argument_order import flags_first
from proreus.cli.cluster.descriptions import RelatedObjects, describe
from proreus.cli.cluster.resource_names import ObjectTarget, path_of, targets
from proreus.cli.cluster.sections import print_sections
from proreus.cli.cluster.state_dir import Where
from proreus.cli.output import Output, new_console, write_json
from proreus.engine.objects.kinds import DEPLOYMENT, EVENT, NODE, POD, REPLICA_SET

if TYPE_CHECKING:
    from proreus.cli.cluster.client import Client

_DESCRIPTION = """Objects of a running cluster in words: of a pod also why it went where it went.

Example: proreus describe pod web-6d4c9-x2x1z; proreus describe node/node-1"""


@dataclass(frozen=True)
class DescribeArguments:
    """Flags of `proreus describe`."""

    what: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="KIND [NAME...]")] = ()
    """A kind and names, or KIND/NAME...; without names all of a kind."""
    namespace: Annotated[str, tyro.conf.arg(aliases=("-n",))] = "default"
    """In which namespace."""
    selector: Annotated[str, tyro.conf.arg(aliases=("-l",))] = ""
    """Without names: those with these labels."""
    where: Where = field(default_factory=Where)
    common: Output = field(default_factory=Output)


def run(words: Sequence[str]) -> int:
    words = flags_first(DescribeArguments, words)
    arguments = parse(DescribeArguments, "proreus describe", words, _DESCRIPTION)
    prepare(arguments.common)
    wanted = targets(arguments.what)
    console = new_console(arguments.common)
    objects: list[dict[str, Any]] = []
    with arguments.where.open() as client:
        for target in wanted:
            for obj in _find(client, target, arguments):
                if objects:
                    console.print("\n")
                around = _around(client, target, obj)
                print_sections(console, describe(target.kind, obj, around))
                objects.append(obj)
    if not objects:
        console.print(f"nothing found in namespace {arguments.namespace}", highlight=False)
    write_json(arguments.common, objects)
    return 0


def _find(client: Client, target: ObjectTarget, arguments: DescribeArguments) -> list[dict[str, Any]]:
    if target.name:
        return [client.get(path_of(target.kind, arguments.namespace, target.name))]
    params = {"labelSelector": arguments.selector} if arguments.selector else {}
    items: list[dict[str, Any]] = client.get(path_of(target.kind, arguments.namespace), params)["items"]
    return items


def _around(client: Client, target: ObjectTarget, obj: dict[str, Any]) -> RelatedObjects:
    """What else is told of an object: its events, the pods of a node, the ReplicaSets of a Deployment."""
    metadata = obj["metadata"]
    selected = {"involvedObject.kind": target.kind.kind, "involvedObject.name": metadata["name"]}
    if target.kind.namespaced:
        selected["involvedObject.uid"] = metadata["uid"]
    events = client.get(
        path_of(EVENT, metadata.get("namespace", "")), {"fieldSelector": _selector(selected)}
    )["items"]
    match target.kind:
        case kind if kind == NODE:
            params = {"fieldSelector": _selector({"spec.nodeName": metadata["name"]})}
            return RelatedObjects(events, pods=client.get(path_of(POD), params)["items"])
        case kind if kind == DEPLOYMENT:
            owned = [
                item
                for item in client.get(path_of(REPLICA_SET, metadata["namespace"]))["items"]
                if any(
                    owner.get("uid") == metadata["uid"]
                    for owner in item["metadata"].get("ownerReferences") or ()
                )
            ]
            return RelatedObjects(events, replica_sets=owned)
        case _:
            return RelatedObjects(events)


def _selector(selected: dict[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in selected.items())
