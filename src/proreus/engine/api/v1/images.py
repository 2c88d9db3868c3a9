"""Images under /v1: what nodes hold, and bringing them to the node of this process or taking them away.

An archive comes in pieces, as registries take them: each request is short, however long the archive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec

from proreus.engine.api.server.node_proxy import NodeRelay
from proreus.engine.api.server.reply import Answer, Reply
from proreus.engine.api.server.request import ApiRequest
from proreus.engine.api.server.status import MethodNotAllowed, UnsupportedType
from proreus.engine.objects.errors import (
    BadRequest,
    Conflict,
    NotFound,
    TooLarge,
    TooManyRequests,
    Unserviceable,
)
from proreus.engine.objects.kinds import NODE
from proreus.engine.objects.registry import Registry
from proreus.engine.runtimes.images.reference import check_reference
from proreus.engine.runtimes.images.uploads import (
    UploadMisplaced,
    UploadsFull,
    UploadTooLarge,
    UploadUnknown,
)
from proreus.engine.runtimes.protocol import Image, NodeImages
from proreus.model.errors import InputError, UsageError, WorkError

_PIECES = "application/octet-stream"
_LONGEST_NAME = 512


class _Import(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    upload: Annotated[str, msgspec.Meta(max_length=64)] = ""
    """"": the image is pulled from its registry."""
    name: Annotated[str, msgspec.Meta(max_length=_LONGEST_NAME)] = ""


class ImageRoutes:
    def __init__(self, registry: Registry, held: NodeImages | None, relay: NodeRelay | None = None) -> None:
        self._registry, self._held, self._relay = registry, held, relay

    async def answer(self, path: Sequence[str], verb: str, asked: ApiRequest) -> Answer:
        """Whatever is asked below /v1/images; `node` says whose, where another process runs it."""
        node = asked.query.get("node", "")
        if node and (self._held is None or node != self._held.node):
            if self._relay is None or not self._relay.is_elsewhere(node):
                raise NotFound(f"no node {node[:80]!r} of this process holds images")
            await self._registry.get(NODE, "", node)
            return await self._relay.reply(node, asked, await asked.body())
        match path, verb:
            case [], "get":
                return Reply.of({"images": await self._listed()})
            case [], "create":
                return await self._import(asked)
            case [], "delete":
                return await self._remove(asked)
            case ["uploads"], "create":
                with _told():
                    return Reply.of({"upload": await self._here().begin_upload(), "size": 0}, 201)
            case ["uploads", upload], "update":
                return await self._add(upload, asked)
            case ["uploads", upload], "delete":
                with _told():
                    await self._here().drop_upload(upload)
                return Reply.of({"upload": upload})
            case [] | ["uploads"] | ["uploads", _], _:
                raise MethodNotAllowed(f"{asked.method} is not allowed here")
            case _:
                raise NotFound("the server could not find the requested resource")

    def _here(self) -> NodeImages:
        if self._held is None:
            raise Conflict("no node of this process holds images: simulated nodes need none")
        return self._held

    async def _listed(self) -> list[dict[str, Any]]:
        """What nodes report that they hold."""
        found: dict[tuple[str, ...], dict[str, Any]] = {}
        for node in (await self._registry.list(NODE)).items:
            for image in (node.get("status") or {}).get("images") or ():
                names = tuple(image.get("names") or ())
                size = image.get("sizeBytes", 0)
                told = found.setdefault(names, {"names": list(names), "size_bytes": size, "nodes": []})
                told["nodes"].append(node["metadata"]["name"])
        return [found[names] for names in sorted(found)]

    async def _add(self, upload: str, asked: ApiRequest) -> Answer:
        held, offset = self._here(), asked.number("offset")
        if offset is None:
            raise BadRequest("offset: say how many bytes come before this piece")
        if asked.content_type != _PIECES:
            raise UnsupportedType(f"a piece of an archive is {_PIECES}, not {asked.content_type[:80]!r}")
        with _told():
            size = await held.add_to_upload(upload, offset, await asked.body())
        return Reply.of({"upload": upload, "size": size})

    async def _import(self, asked: ApiRequest) -> Answer:
        held = self._here()
        try:
            wanted = msgspec.convert(await asked.document(), _Import)
        except msgspec.ValidationError as error:
            raise BadRequest(f"an import is {{upload, name}}: {error}") from None
        if not (wanted.upload or wanted.name):
            raise BadRequest("say which image to pull (name), or which upload to import (upload)")
        with _told():
            if wanted.name:
                check_reference(wanted.name)
            if not wanted.upload:
                size = await held.pull_image(wanted.name)
                return Reply.of({"images": [_as_json(Image((wanted.name,), size), held.node)]})
            images = await held.import_upload(wanted.upload, wanted.name)
        return Reply.of({"images": [_as_json(image, held.node) for image in images]})

    async def _remove(self, asked: ApiRequest) -> Answer:
        held, name = self._here(), asked.query.get("name", "")
        if not 0 < len(name) <= _LONGEST_NAME:
            raise BadRequest("name: say which image")
        with _told():
            try:
                there = await held.remove_image(name)
            except UsageError as error:
                raise Conflict(str(error)) from error
        if not there:
            raise NotFound(f"{held.node} holds no image {name[:80]!r}")
        return Reply.of({"name": name, "node": held.node})


def _as_json(image: Image, node: str) -> dict[str, Any]:
    return {"names": list(image.names), "size_bytes": image.size, "nodes": [node]}


@contextmanager
def _told() -> Iterator[None]:
    """What images are refused for, in the words of the API; where an archive lies is nobody's business."""
    try:
        yield
    except UploadUnknown as error:
        raise NotFound(str(error)) from error
    except UploadMisplaced as error:
        raise Conflict(str(error)) from error
    except UploadTooLarge as error:
        raise TooLarge(str(error)) from error
    except UploadsFull as error:
        raise TooManyRequests(str(error)) from error
    except InputError as error:
        raise BadRequest(str(error).removeprefix(f"{error.file}: ")) from error
    except UsageError as error:
        raise BadRequest(str(error)) from error
    except (WorkError, OSError) as error:
        raise Unserviceable(str(error)) from error
