"""`proreus images import | list | remove`: the images that the containers of a cluster are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import tyro

from proreus.cli.arguments import parse, prepare
from proreus.cli.cluster.images import image_name, image_size
from proreus.cli.cluster.messages import Body
from proreus.cli.cluster.place import Where
from proreus.cli.cluster.tables import print_rows
from proreus.cli.output import Output, new_console, write_json
from proreus.engine.runtimes.images.names import check_reference
from proreus.model.errors import InputError, UsageError, unknown_name

if TYPE_CHECKING:
    from proreus.cli.cluster.client import Client

ACTIONS = ("import", "list", "remove")
_EXAMPLE = (
    "Example: proreus images import busybox.tar --name busybox (and see proreus images list|remove --help)"
)
_PIECE = 2 << 20
_BYTES = "application/octet-stream"
_IMPORT_SECONDS = 900.0


@dataclass(frozen=True)
class ImportArguments:
    """Flags of `proreus images import`."""

    archive: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="ARCHIVE")] = None
    """An image as a tar file in OCI's layout, as `docker save` and `skopeo copy` write it."""
    name: str = ""
    """What the image is called from now on; by default as the archive says."""
    node: str = ""
    """The node that is to have it; by default that of the process that answers."""
    where: Where = field(default_factory=Where)
    common: Output = field(default_factory=Output)


@dataclass(frozen=True)
class ListArguments:
    """Flags of `proreus images list`."""

    where: Where = field(default_factory=Where)
    common: Output = field(default_factory=Output)


@dataclass(frozen=True)
class RemoveArguments:
    """Flags of `proreus images remove`."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")] = ""
    """Its name, or its digest."""
    node: str = ""
    """The node that is to lose it; by default that of the process that answers."""
    where: Where = field(default_factory=Where)
    common: Output = field(default_factory=Output)


def run(words: Sequence[str]) -> int:
    """Import an archive, list what nodes hold, or remove an image."""
    if not words or words[0].startswith("-"):
        parse(ImportArguments, "proreus images import", words, _EXAMPLE)
        raise UsageError(f"say what to do with images: {', '.join(ACTIONS)}")
    action, *rest = words
    match action:
        case "import":
            return _import(parse(ImportArguments, "proreus images import", rest, _EXAMPLE))
        case "list":
            return _list(parse(ListArguments, "proreus images list", rest, "Example: proreus images list"))
        case "remove":
            example = "Example: proreus images remove busybox"
            return _remove(parse(RemoveArguments, "proreus images remove", rest, example))
        case _:
            raise unknown_name("action", action, ACTIONS)


def _import(arguments: ImportArguments) -> int:
    prepare(arguments.common)
    if arguments.archive is None:
        raise UsageError("name an archive: proreus images import ARCHIVE")
    if arguments.name:
        check_reference(arguments.name)  # before anything is sent
    if not arguments.archive.is_file():
        raise InputError("no such file", file=arguments.archive)
    with arguments.where.open() as client, arguments.archive.open("rb") as archive:
        node = _on(arguments.node)
        upload = client.ask("POST", "/v1/images/uploads", node).content["upload"]
        try:
            _send(client, f"/v1/images/uploads/{upload}", node, archive)
            body = Body.of({"upload": upload, "name": arguments.name}, answer_seconds=_IMPORT_SECONDS)
            found = client.ask("POST", "/v1/images", node, body).content["images"]
        except KeyboardInterrupt:
            client.ask("DELETE", f"/v1/images/uploads/{upload}", node)
            raise
    console = new_console(arguments.common)
    for image in found:
        console.print(
            f"{image_name(image['names'])} imported on {image['nodes'][0]}", highlight=False, soft_wrap=True
        )
    write_json(arguments.common, {"images": found})
    return 0


def _on(node: str) -> dict[str, str]:
    return {"node": node} if node else {}


def _send(client: Client, path: str, node: Mapping[str, str], archive: BinaryIO) -> None:
    size = 0
    while piece := archive.read(_PIECE):
        size = client.ask("PUT", path, {"offset": str(size), **node}, Body(piece, _BYTES)).content["size"]


def _list(arguments: ListArguments) -> int:
    prepare(arguments.common)
    with arguments.where.open() as client:
        images: list[dict[str, Any]] = client.get("/v1/images")["images"]
    console = new_console(arguments.common)
    if images:
        rows = [
            [image_name(one["names"]), image_size(one["size_bytes"]), ", ".join(one["nodes"])]
            for one in images
        ]
        print_rows(console, ("NAME", "SIZE", "NODES"), rows)
    else:
        console.print("no images", highlight=False)
    write_json(arguments.common, {"images": images})
    return 0


def _remove(arguments: RemoveArguments) -> int:
    prepare(arguments.common)
    if not arguments.name:
        raise UsageError("name an image: proreus images remove NAME")
    with arguments.where.open() as client:
        gone = client.ask("DELETE", "/v1/images", {"name": arguments.name, **_on(arguments.node)}).content
    new_console(arguments.common).print(f"{gone['name']} removed from {gone['node']}", highlight=False)
    write_json(arguments.common, gone)
    return 0
