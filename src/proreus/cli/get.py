"""`proreus get KIND [NAME...]`: objects of a running cluster, as a table, YAML, JSON or names."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, assert_never

import tyro
from rich.console import Console

from proreus.cli.arguments import parse, prepare
from proreus.cli.cluster.argument_order import flags_first
from proreus.cli.cluster.documents import as_yaml
from proreus.cli.cluster.messages import JSON, TABLE, ApiRefused, Unreachable
from proreus.cli.cluster.resource_names import ObjectTarget, path_of, singular, targets
from proreus.cli.cluster.state_dir import Where
from proreus.cli.cluster.tables import Columns, TableView, columns_of, print_plain, print_rows, rows_of
from proreus.cli.output import Output, new_console, write_json
from proreus.model.errors import UsageError

if TYPE_CHECKING:
    from proreus.cli.cluster.client import Client

Form = Literal["table", "wide", "yaml", "json", "name"]
_DESCRIPTION = """Objects of a running cluster.

Example: proreus get pods -o wide; proreus get deployment/web -o yaml; proreus get all -A"""
_AGAIN_SECONDS = 1.0
_GONE = 410


@dataclass(frozen=True)
class GetArguments:
    """Flags of `proreus get`."""

    what: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="KIND [NAME...]")] = ()
    """A kind (pods, po, deployments.apps, all) and names, or KIND/NAME..."""
    namespace: Annotated[str, tyro.conf.arg(aliases=("-n",))] = "default"
    """In which namespace."""
    all_namespaces: Annotated[bool, tyro.conf.arg(aliases=("-A",))] = False
    """In all of them."""
    selector: Annotated[str, tyro.conf.arg(aliases=("-l",))] = ""
    """Only those with these labels, as app=web,tier!=test."""
    field_selector: str = ""
    """Only those with these fields, as spec.nodeName=node-1,status.phase=Running."""
    output: Annotated[Form, tyro.conf.arg(aliases=("-o",))] = "table"
    """In which form."""
    watch: Annotated[bool, tyro.conf.arg(aliases=("-w",))] = False
    """Go on with what changes, until interrupted."""
    where: Where = field(default_factory=Where)
    common: Output = field(default_factory=Output)


def run(words: Sequence[str]) -> int:
    """Get objects and show them."""
    arguments = parse(GetArguments, "proreus get", flags_first(GetArguments, words), _DESCRIPTION)
    prepare(arguments.common)
    wanted = targets(arguments.what)
    if arguments.watch and (len(wanted) > 1 or arguments.common.json is not None):
        raise UsageError("--watch follows one kind or one object, and without --json")
    if any(target.name for target in wanted):
        for flag, said in (
            ("--all-namespaces", arguments.all_namespaces),
            ("--selector", arguments.selector),
        ):
            if said:
                raise UsageError(f"{flag} and names exclude each other")
    with arguments.where.open() as client:
        return _Getting(client, arguments, new_console(arguments.common)).run(wanted)


class _Getting:
    """One run of the verb."""

    def __init__(self, client: Client, arguments: GetArguments, console: Console) -> None:
        self._client, self._arguments, self._console = client, arguments, console
        self._failed: ApiRefused | None = None

    def run(self, wanted: list[ObjectTarget]) -> int:
        form = self._arguments.output
        if self._arguments.watch:
            self._watch(wanted[0])
            return 0
        if form in ("table", "wide") and self._arguments.common.json is None:
            self._show_tables(wanted)
        else:
            self._show_objects(wanted)
        if self._failed is not None:
            raise self._failed  # what was found has been shown
        return 0

    def _show_tables(self, wanted: list[ObjectTarget]) -> None:
        several = len({target.kind for target in wanted}) > 1
        by_kind: dict[str, list[tuple[ObjectTarget, dict[str, Any]]]] = {}
        for target in wanted:
            answer = self._ask(target, TABLE)
            if answer is not None:
                by_kind.setdefault(target.kind.resource, []).append((target, answer))
        shown_before = False
        for answers in by_kind.values():
            kind = answers[0][0].kind
            shown = self._shown(kind.namespaced, f"{singular(kind)}/" if several else "")
            columns = columns_of(answers[0][1], shown)
            rows = [row for _, table in answers for row in rows_of(table, columns, shown)]
            if not rows:
                continue
            if shown_before:
                self._console.print()
            print_rows(self._console, columns.names, rows)
            shown_before = True
        if not shown_before and self._failed is None:
            place = "" if self._arguments.all_namespaces else f" in namespace {self._arguments.namespace}"
            if not any(target.kind.namespaced for target in wanted):
                place = ""
            self._console.print(f"nothing found{place}", highlight=False)

    def _shown(self, namespaced: bool, prefix: str) -> TableView:
        return TableView(
            self._arguments.output == "wide", self._arguments.all_namespaces and namespaced, prefix
        )

    def _show_objects(self, wanted: list[ObjectTarget]) -> None:
        objects: list[dict[str, Any]] = []
        for target in wanted:
            answer = self._ask(target, JSON)
            if answer is None:
                continue
            if target.name:
                objects.append(answer)
                continue
            typed = {"apiVersion": target.kind.api_version, "kind": target.kind.kind}
            objects += [{**typed, **item} for item in answer["items"]]
        single = len(wanted) == 1 and bool(wanted[0].name)
        if single and not objects:
            return
        self._print(objects[0] if single else {"apiVersion": "v1", "kind": "List", "items": objects}, objects)

    def _print(self, whole: dict[str, Any], objects: list[dict[str, Any]]) -> None:
        arguments = self._arguments
        match arguments.output:
            case "yaml":
                self._say(as_yaml(whole).rstrip("\n"))
            case "json":
                self._say(json.dumps(whole, indent=2, ensure_ascii=False))
            case "name":
                for item in objects:
                    self._say(_name(item))
            case "table" | "wide":  # --json: the objects go there
                pass
            case never:
                assert_never(never)
        write_json(arguments.common, whole)

    def _say(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, highlight=False)

    def _params(self, target: ObjectTarget) -> dict[str, str]:
        arguments = self._arguments
        params = {"labelSelector": arguments.selector, "fieldSelector": arguments.field_selector}
        if target.name:  # a watch of one object
            params["fieldSelector"] = f"metadata.name={target.name}"
        return {name: value for name, value in params.items() if value}

    def _path(self, target: ObjectTarget, name: str = "") -> str:
        namespace = "" if self._arguments.all_namespaces else self._arguments.namespace
        return path_of(target.kind, namespace, name)

    def _ask(self, target: ObjectTarget, accept: str) -> dict[str, Any] | None:
        """The answer; None where one of several names is not there, which is told in the end."""
        try:
            params = {} if target.name else self._params(target)
            answer: dict[str, Any] = self._client.get(self._path(target, target.name), params, accept=accept)
            return answer
        except ApiRefused as refused:
            self._failed = refused
            return None

    def _watch(self, target: ObjectTarget) -> None:
        """What there is, then every change; a watch that ends or is too old begins again."""
        shown = self._shown(target.kind.namespaced, "")
        columns: Columns | None = None
        for event in self._events(target):
            objects = event["object"]
            if self._arguments.output not in ("table", "wide"):
                self._print(objects, [objects])
                continue
            if columns is None:
                columns = columns_of(objects, shown)
                columns.widths = print_rows(self._console, columns.names, rows_of(objects, columns, shown))
                continue
            rows = rows_of(objects, columns, shown)
            for row in rows:
                columns.widths = [max(w, len(text)) for w, text in zip(columns.widths, row, strict=True)]
            print_plain(self._console, rows, columns.widths)

    def _events(self, target: ObjectTarget) -> Iterator[dict[str, Any]]:
        table = self._arguments.output in ("table", "wide")
        accept = TABLE if table else JSON
        path, params = self._path(target), self._params(target)
        while True:
            listed = self._client.get(path, params, accept=accept)
            typed = {"apiVersion": target.kind.api_version, "kind": target.kind.kind}
            for obj in [listed] if table else [{**typed, **item} for item in listed["items"]]:
                yield {"type": "ADDED", "object": obj}
            try:
                yield from self._changes(path, params, accept, listed["metadata"]["resourceVersion"])
            except ApiRefused as refused:
                if refused.code != _GONE:
                    raise

    def _changes(
        self, path: str, params: dict[str, str], accept: str, revision: str
    ) -> Iterator[dict[str, Any]]:
        """Every change after a revision; over as many connections as it takes."""
        while True:
            try:
                for event in self._client.watch(path, {**params, "resourceVersion": revision}, accept=accept):
                    revision = _revision(event["object"]) or revision
                    if event["type"] != "BOOKMARK":
                        yield event
            except Unreachable:
                time.sleep(_AGAIN_SECONDS)
                self._client.get("/version")  # whoever is gone for good is told so


def _revision(obj: dict[str, Any]) -> str:
    """The resourceVersion of an event's object, which in a table stands with its row."""
    if obj.get("kind") == "Table":
        rows = obj.get("rows") or [{}]
        obj = rows[-1].get("object") or obj
    revision: str = (obj.get("metadata") or {}).get("resourceVersion", "")
    return revision


def _name(item: dict[str, Any]) -> str:
    group, slash, _ = str(item.get("apiVersion", "")).partition("/")
    kind = str(item.get("kind", "")).lower()
    return f"{kind}.{group}/{item['metadata']['name']}" if slash else f"{kind}/{item['metadata']['name']}"
