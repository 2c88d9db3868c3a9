"""`proreus apply -f FILE`: make a running cluster keep what files describe."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from proreus.cli.arguments import parse, prepare
from proreus.cli.cluster.documents import Document, read_all
from proreus.cli.cluster.messages import ApiRefused, Body
from proreus.cli.cluster.resource_names import ObjectTarget, kind_of_object, path_of
from proreus.cli.cluster.state_dir import Where
from proreus.cli.output import Output, new_console, write_json
from proreus.engine.objects.kinds import KINDS
from proreus.model.errors import WorkError

if TYPE_CHECKING:
    from proreus.cli.cluster.client import Client

MANAGER = "proreus"
"""Who owns the fields that are applied here."""
_APPLY = "application/apply-patch+yaml"
_DESCRIPTION = """Create objects, or change them to what files describe. Fields that others have set stay.

Example: proreus apply -f web.yaml; proreus apply -f manifests/; cat web.yaml | proreus apply -f -"""
_BAD_INPUT = (400, 422)
_NOT_FOUND = 404
Done = Literal["created", "configured", "unchanged"]


@dataclass(frozen=True)
class ApplyArguments:
    """Flags of `proreus apply`."""

    filename: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(aliases=("-f",), metavar="FILE|DIR|-")
    ] = ()
    """What to read: YAML or JSON files, folders of them, or stdin; may be given several times."""
    namespace: Annotated[str, tyro.conf.arg(aliases=("-n",))] = "default"
    """Where objects go that name no namespace."""
    dry_run: bool = False
    """Have everything checked and nothing kept."""
    where: Where = field(default_factory=Where)
    common: Output = field(default_factory=Output)


def run(words: Sequence[str]) -> int:
    arguments = parse(ApplyArguments, "proreus apply", words, _DESCRIPTION)
    prepare(arguments.common)
    documents = read_all(arguments.filename)
    aimed = [(document, target_of(document, arguments.namespace)) for document in documents]
    console = new_console(arguments.common)
    applied: list[dict[str, str]] = []
    with arguments.where.open() as client:
        for document, (target, namespace) in aimed:
            done = _apply(client, document, target, namespace, dry_run=arguments.dry_run)
            note = " (dry run)" if arguments.dry_run else ""
            console.print(f"{target.shown} {done}{note}", highlight=False, soft_wrap=True)
            applied.append({"object": target.shown, "namespace": namespace, "done": done})
    write_json(arguments.common, {"applied": applied})
    return 0


def target_of(document: Document, namespace: str) -> tuple[ObjectTarget, str]:
    """Which object a document describes, and in which namespace; it is put there."""
    value = document.value
    api_version, kind = value.get("apiVersion"), value.get("kind")
    known = kind_of_object(str(api_version), str(kind))
    if known is None:
        names = ", ".join(f"{kind.api_version} {kind.kind}" for kind in KINDS)
        raise document.fail(f"the cluster keeps no {api_version} {kind} (it keeps: {names})", "kind")
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise document.fail("the field is missing", "metadata.name")
    if not known.namespaced:
        return ObjectTarget(known, metadata["name"]), ""
    stated = metadata.setdefault("namespace", namespace)
    return ObjectTarget(known, metadata["name"]), str(stated)


def _apply(
    client: Client, document: Document, target: ObjectTarget, namespace: str, *, dry_run: bool
) -> Done:
    path = path_of(target.kind, namespace, target.name)
    before = _revision(client, path)
    params = {"fieldManager": MANAGER, "force": "true", **({"dryRun": "All"} if dry_run else {})}
    try:
        answer = client.ask("PATCH", path, params, Body.of(document.value, _APPLY))
    except ApiRefused as refused:
        if refused.code in _BAD_INPUT:
            raise document.fail(str(refused)) from refused
        raise WorkError(f"{target.shown}: {refused}") from refused
    for warning in answer.warnings:
        print(f"proreus: {document.fail(f'warning: {warning}')}", file=sys.stderr)
    if before is None:
        return "created"
    return "unchanged" if answer.content["metadata"].get("resourceVersion") == before else "configured"


def _revision(client: Client, path: str) -> str | None:
    """That of the object that stands there; None: there is none."""
    try:
        current: dict[str, Any] = client.get(path)
    except ApiRefused as refused:
        if refused.code != _NOT_FOUND:
            raise
        return None
    revision: str = current["metadata"]["resourceVersion"]
    return revision
