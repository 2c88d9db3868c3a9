"""Images under /v1: archives that come in pieces, what is imported of them, and what is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from proreus.engine.api.server.authentication import Identity, Role
from proreus.engine.api.server.options import ApiOptions
from proreus.engine.kubelet.images_api import MachineImages
from proreus.engine.kubelet.machine_runtime import MachineRuntime
from proreus.engine.runtimes.images.store import ImageStore
from proreus.engine.runtimes.images.uploads import Uploads, UploadUnknown
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.runtimes.protocol import Image
from proreus.model.errors import UsageError, WorkError
from tests.engine.api.live import live
from tests.engine.runtimes.archives import Archive, entry, tar_of
from tests.engine.runtimes.benches import IMAGE

PIECES = {"content-type": "application/octet-stream"}
UPLOADS = "/v1/images/uploads"
MOST = 1 << 20


class HeldImages:
    """The half of a runtime that has to do with images."""

    def __init__(self, folder: Path) -> None:
        self.store = ImageStore(folder, MOST, 10 * MOST)
        self.busy: set[str] = set()
        self.full = False

    async def import_image(self, path: Path, name: str = "") -> Sequence[Image]:
        if self.full:
            raise WorkError(f"{path}: no space left on device")
        return self.store.import_archive(path, name)

    async def remove_image(self, name: str) -> bool:
        if name in self.busy:
            raise UsageError(f"image {name!r} is in use by a container")
        return self.store.remove(name)


@pytest.fixture
def held(tmp_path: Path) -> HeldImages:
    return HeldImages(tmp_path / "images")


@pytest.fixture
def changes() -> list[str]:
    return []


@pytest.fixture
def client(tmp_path: Path, held: HeldImages, changes: list[str]) -> Iterator[httpx.Client]:
    runtime = cast(MachineRuntime, held)
    options = MachineOptions(tmp_path / "node", most_image_bytes=MOST)
    images = MachineImages("here", runtime, options, lambda: changes.append("changed"))
    with live(images=images) as door, door.client() as asking:
        yield asking


def archive(folder: Path) -> bytes:
    layer = tar_of([(entry("etc/motd"), b"hello\n")])
    return Archive([layer], {"Cmd": ["/bin/true"]}).write(folder / "image.tar").read_bytes()


def upload(client: httpx.Client, *pieces: bytes) -> str:
    name, size = client.post(UPLOADS).json()["upload"], 0
    for piece in pieces:
        answer = client.put(f"{UPLOADS}/{name}", params={"offset": size}, content=piece, headers=PIECES)
        assert answer.status_code == 200, answer.text
        size = answer.json()["size"]
    return str(name)


def test_an_archive_comes_in_pieces_and_its_image_is_held_until_removed(
    client: httpx.Client, held: HeldImages, changes: list[str], tmp_path: Path
) -> None:
    whole = archive(tmp_path)
    name = upload(client, whole[:1000], whole[1000:])
    response = client.post("/v1/images", json={"upload": name, "name": "mine:1"})
    assert response.status_code == 200, response.text
    (image,) = response.json()["images"]
    assert image["names"][0] == "docker.io/library/mine:1" and image["nodes"] == ["here"]
    assert held.store.find("mine:1") is not None and changes == ["changed"]
    assert client.post("/v1/images", json={"upload": name}).status_code == 404, "it is gone once imported"
    assert list((tmp_path / "node" / "uploads").iterdir()) == []
    held.busy.add("mine:1")
    assert client.delete("/v1/images", params={"name": "mine:1"}).status_code == 409
    held.busy.clear()
    assert client.delete("/v1/images", params={"name": "mine:1"}).json() == {"name": "mine:1", "node": "here"}
    assert client.delete("/v1/images", params={"name": "mine:1"}).status_code == 404


def test_the_name_of_the_archive_counts_where_none_is_said(client: httpx.Client, tmp_path: Path) -> None:
    response = client.post("/v1/images", json={"upload": upload(client, archive(tmp_path))})
    assert response.json()["images"][0]["names"][0] == IMAGE


def test_what_cannot_be_meant_is_refused_and_named(client: httpx.Client, held: HeldImages) -> None:
    name = upload(client, b"x" * 10)
    wrong: list[tuple[httpx.Response, int, str]] = [
        (client.put(f"{UPLOADS}/{name}", content=b"y", headers=PIECES), 400, "offset"),
        (client.put(f"{UPLOADS}/{name}?offset=3", content=b"y", headers=PIECES), 409, "10 bytes"),
        (client.put(f"{UPLOADS}/{name}?offset=10", content=b"y"), 415, "octet-stream"),
        (client.put(f"{UPLOADS}/{name}?offset=10", content=b"y" * MOST, headers=PIECES), 413, str(MOST)),
        (client.put(f"{UPLOADS}/{'0' * 32}?offset=0", content=b"y", headers=PIECES), 404, "no upload"),
        (client.put(f"{UPLOADS}/..%2f..?offset=0", content=b"y", headers=PIECES), 400, "path"),
        (client.delete(f"{UPLOADS}/{'0' * 32}"), 404, "no upload"),
        (client.post("/v1/images", json={"upload": name, "nome": "x"}), 400, "nome"),
        (client.post("/v1/images", json={"upload": name, "name": "a b"}), 400, "name: 'a b' is no name"),
        (client.post("/v1/images", json={"upload": name, "name": ":::"}), 400, "name: ':::' is no name"),
        (client.post("/v1/images", json={"upload": name, "name": "a/B:1"}), 400, "name: 'a/B:1' is no name"),
        (client.delete("/v1/images"), 400, "name"),
        (client.patch("/v1/images"), 405, "PATCH"),
        (client.get(UPLOADS), 405, "GET"),
        (client.get("/v1/images/elsewhere"), 404, "could not find"),
        (client.post("/v1/images", json={"upload": name}), 400, ""),
    ]
    for answer, code, says in wrong:
        assert answer.status_code == code and says in answer.json()["message"], answer.text
        assert "/uploads/" not in answer.json()["message"], "where it lies here is nobody's business"
    held.full = True
    answer = client.post("/v1/images", json={"upload": upload(client, b"x")})
    assert (answer.status_code, answer.json()["message"]) == (503, "no space left on device")


def test_few_uploads_at_once_and_none_is_left_of_an_earlier_process(tmp_path: Path) -> None:
    first = Uploads(tmp_path, 100)
    names = [first.begin() for _ in range(4)]
    with pytest.raises(Exception, match="4 uploads are under way"):
        first.begin()
    first.drop(names[0])
    assert first.add(first.begin(), 0, b"abc") == 3
    second = Uploads(tmp_path, 100)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UploadUnknown):
        second.add(names[1], 0, b"abc")


def test_only_admins_bring_images_and_simulated_nodes_need_none() -> None:
    tokens = {hashlib.sha256(role.value.encode()).digest(): Identity(role.value, role) for role in Role}
    with live(ApiOptions(tokens=tokens)) as door:
        for role, code in ((Role.VIEWER, 403), (Role.AGENT, 403), (Role.ADMIN, 409)):
            with door.client(authorization=f"Bearer {role.value}") as client:
                asked: dict[str, Any] = {"upload": "0" * 32}
                answers = (client.post(UPLOADS), client.post("/v1/images", json=asked))
                assert [answer.status_code for answer in answers] == [code, code]
                assert client.get("/v1/images").json() == {"images": []}
