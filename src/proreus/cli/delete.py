"""`proreus delete KIND NAME...`: take objects out of a running cluster, and wait until they are gone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from proreus.cli.apply import target_of
from proreus.cli.arguments import parse, prepare
from proreus.cli.cluster.argument_order import flags_first
from proreus.cli.cluster.documents import read_all
from proreus.cli.cluster.messages import ApiRefused, Body
from proreus.cli.cluster.resource_names import ObjectTarget, path_of, targets
from proreus.cli.cluster.state_dir import Where
from proreus.cli.output import Output, new_console, waiting, write_json
from proreus.model.errors import UsageError, WorkError

if TYPE_CHECKING:
    from proreus.cli.cluster.client import Client

_DESCRIPTION = """Delete objects, and what they own.

Example: proreus delete deployment web; proreus delete -f web.yaml; proreus delete pods -l app=web"""
_NOT_FOUND = 404
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class DeleteArguments:
    """Flags of `proreus delete`."""

    what: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="KIND [NAME...]")] = ()
    """A kind and names, or KIND/NAME..."""
    filename: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(aliases=("-f",), metavar="FILE|DIR|-")
    ] = ()
    """Delete what these files describe."""
    namespace: Annotated[str, tyro.conf.arg(aliases=("-n",))] = "default"
    """In which namespace."""
    selector: Annotated[str, tyro.conf.arg(aliases=("-l",))] = ""
    """Those of a kind with these labels."""
    all: bool = False
    """All of a kind in the namespace."""
    grace_period: Annotated[int | None, tyro.conf.arg(metavar="SECONDS")] = None
    """How long pods may take to end; 0: at once. By default what each pod says."""
    cascade: Literal["background", "foreground", "orphan"] = "background"
    """What becomes of what they own: deleted after them, before them, or left."""
    ignore_not_found: bool = False
    """Nothing to delete is no error."""
    wait: bool = True
    """Wait until they are gone."""
    timeout: Annotated[float, tyro.conf.arg(metavar="SECONDS")] = 120.0
    """How long to wait."""
    where: Where = field(default_factory=Where)
    common: Output = field(default_factory=Output)

    def __post_init__(self) -> None:
        if bool(self.what) == bool(self.filename):
            raise UsageError("name what to delete: KIND NAME..., KIND -l SELECTOR, KIND --all, or -f FILE")
        if self.grace_period is not None and self.grace_period < 0:
            raise UsageError(f"--grace-period {self.grace_period} is negative")
        if not self.timeout >= 0:
            raise UsageError(f"--timeout {self.timeout} is not a number from 0 on")


@dataclass(frozen=True)
class _Object:
    """What is to go."""

    target: ObjectTarget
    namespace: str

    @property
    def path(self) -> str:
        """Where it stands."""
        return path_of(self.target.kind, self.namespace, self.target.name)


def run(words: Sequence[str]) -> int:
    arguments = parse(DeleteArguments, "proreus delete", flags_first(DeleteArguments, words), _DESCRIPTION)
    prepare(arguments.common)
    console = new_console(arguments.common)
    options: dict[str, Any] = {"propagationPolicy": arguments.cascade.capitalize()}
    if arguments.grace_period is not None:
        options["gracePeriodSeconds"] = arguments.grace_period
    deleted: list[tuple[_Object, str]] = []
    with arguments.where.open() as client:
        for obj in list(_wanted(client, arguments)):
            uid = _delete(client, obj, options, ignore=arguments.ignore_not_found)
            if uid is None:
                continue
            console.print(f"{obj.target.shown} deleted", highlight=False, soft_wrap=True)
            deleted.append((obj, uid))
        if arguments.wait:
            with waiting(console, "waiting until they are gone"):
                _wait(client, deleted, arguments.timeout)
    if not deleted:
        console.print("nothing deleted", highlight=False)
    write_json(arguments.common, {"deleted": [obj.target.shown for obj, _ in deleted]})
    return 0


def _wanted(client: Client, arguments: DeleteArguments) -> Iterator[_Object]:
    if arguments.filename:
        for document in reversed(read_all(arguments.filename)):  # what came last may need what came first
            yield _Object(*target_of(document, arguments.namespace))
        return
    for target in targets(arguments.what):
        if target.name:
            if arguments.selector or arguments.all:
                raise UsageError("names, --selector and --all exclude each other")
            yield _Object(target, arguments.namespace)
        elif not arguments.selector and not arguments.all:
            raise UsageError(f"which {target.kind.plural}? Name them, or give --selector or --all")
        else:
            params = {"labelSelector": arguments.selector} if arguments.selector else {}
            listed = client.get(path_of(target.kind, arguments.namespace), params)
            for item in listed["items"]:
                yield _Object(ObjectTarget(target.kind, item["metadata"]["name"]), arguments.namespace)


def _delete(client: Client, obj: _Object, options: dict[str, Any], *, ignore: bool) -> str | None:
    """The uid of what was told to go; None: it was not there."""
    try:
        uid: str = client.get(obj.path)["metadata"]["uid"]
        client.ask("DELETE", obj.path, body=Body.of({**options, "preconditions": {"uid": uid}}))
    except ApiRefused as refused:
        if refused.code == _NOT_FOUND and ignore:
            return None
        raise
    return uid


def _wait(client: Client, deleted: list[tuple[_Object, str]], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    for obj, uid in deleted:
        while _stands(client, obj, uid):
            if time.monotonic() >= deadline:
                raise WorkError(f"{obj.target.shown} is still there after {seconds:g} s")
            time.sleep(_POLL_SECONDS)


def _stands(client: Client, obj: _Object, uid: str) -> bool:
    try:
        return bool(client.get(obj.path)["metadata"]["uid"] == uid)
    except ApiRefused as refused:
        if refused.code != _NOT_FOUND:
            raise
        return False
