"""`proreus images pack | import | list | remove`: the images that the containers of a cluster are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import tyro

from proreus.cli.arguments import parse, prepare
from proreus.cli.cluster.messages import Body
from proreus.cli.cluster.state_dir import Where
from proreus.cli.cluster.tables import image_name, image_size, print_rows
from proreus.cli.output import Output, new_console, write_json
from proreus.engine.runtimes.images.builder import pack_programs
from proreus.engine.runtimes.images.reference import check_reference
from proreus.model.errors import InputError, UsageError, unknown_name

if TYPE_CHECKING:
    from proreus.cli.cluster.client import Client

ACTIONS = ("import", "list", "pack", "remove")
_SWITCHES = ("--quiet", "--no-quiet", "--log-json", "--no-log-json", "-h", "--help")
"""Flags that no value follows."""
_EXAMPLE = "Example: proreus images import busybox.tar --name busybox (see also list|pack|remove --help)"
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


@dataclass(frozen=True)
class PackArguments:
    """Flags of `proreus images pack`."""

    archive: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="ARCHIVE")] = None
    """The tar file that is written, in OCI's layout."""
    programs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="PROGRAM")] = ()
    """Programs of this machine; the libraries that they need come along."""
    name: str = ""
    """What the image is called."""
    common: Output = field(default_factory=Output)


def run(words: Sequence[str]) -> int:
    """Import an archive, list what nodes hold, pack an image of programs, or remove one."""
    action, rest = _action_of(words)
    match action:
        case "":
            parse(ImportArguments, "proreus images import", words, _EXAMPLE)
            raise UsageError(f"say what to do with images: {', '.join(ACTIONS)}")
        case "import":
            return _import(parse(ImportArguments, "proreus images import", rest, _EXAMPLE))
        case "list":
            return _list(parse(ListArguments, "proreus images list", rest, "Example: proreus images list"))
        case "pack":
            example = "Example: proreus images pack busybox.tar /usr/bin/busybox --name busybox:1"
            return _pack(parse(PackArguments, "proreus images pack", rest, example))
        case "remove":
            example = "Example: proreus images remove busybox"
            return _remove(parse(RemoveArguments, "proreus images remove", rest, example))
        case _:
            raise unknown_name("action", action, ACTIONS)


def _action_of(words: Sequence[str]) -> tuple[str, list[str]]:
    """The first word that is neither a flag nor the value of one, and the others; "": there is none."""
    is_value = False
    for place, word in enumerate(words):
        if not is_value and not word.startswith("-"):
            return word, [*words[:place], *words[place + 1 :]]
        is_value = not is_value and word.startswith("-") and "=" not in word and word not in _SWITCHES
    return "", list(words)


def _pack(arguments: PackArguments) -> int:
    prepare(arguments.common)
    if arguments.archive is None or not arguments.programs or not arguments.name:
        raise UsageError("name archive, programs and image: proreus images pack ARCHIVE PROGRAM --name NAME")
    check_reference(arguments.name)
    pack_programs(arguments.archive, arguments.name, arguments.programs)
    size = image_size(arguments.archive.stat().st_size)
    new_console(arguments.common).print(
        f"{arguments.archive}: {arguments.name}, {size}; next: proreus images import {arguments.archive}",
        highlight=False,
        soft_wrap=True,
    )
    write_json(arguments.common, {"archive": str(arguments.archive), "name": arguments.name})
    return 0


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
            images = client.ask("POST", "/v1/images", node, body).content["images"]
        except KeyboardInterrupt:
            client.ask("DELETE", f"/v1/images/uploads/{upload}", node)
            raise
    console = new_console(arguments.common)
    for image in images:
        console.print(
            f"{image_name(image['names'])} imported on {image['nodes'][0]}", highlight=False, soft_wrap=True
        )
    write_json(arguments.common, {"images": images})
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
            [image_name(image["names"]), image_size(image["size_bytes"]), ", ".join(image["nodes"])]
            for image in images
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
