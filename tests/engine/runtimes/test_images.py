"""Importing, listing, removing and collecting images; and archives that are meant to do harm."""

from __future__ import annotations

import gzip
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from proreus.engine.runtimes.images.checked_stream import BadArchive
from proreus.engine.runtimes.images.reference import full_name
from proreus.engine.runtimes.images.store import ImageStore
from proreus.model.errors import UsageError
from tests.engine.runtimes.archives import LAYER, Archive, digest, entry, tar_of

MOST, MOST_FILES = 8 * 1024 * 1024, 500


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    """An empty one."""
    return ImageStore(tmp_path / "images", MOST, budget=10 * MOST, most_files=MOST_FILES)


def _layer(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    return tar_of([(entry("etc", tarfile.DIRTYPE), b""), (entry("etc/name"), b"sound"), *members])


def _hidden(name: str) -> Archive:
    """An image whose layer has one member of this name."""
    return Archive([_layer((entry(name), b"bad"))])


def _link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> Archive:
    return Archive([_layer((entry(name, kind, linkname=target), b""))])


def _device(kind: bytes) -> Archive:
    return Archive([_layer((entry("dev/evil", kind, devmajor=8, devminor=0), b""))])


def _changed_blob() -> Archive:
    archive = Archive([_layer()])
    archive.blobs[digest(archive.layers[0]).removeprefix("sha256:")] = archive.layers[0] + b"\0" * 512
    return archive


def _missing_blob() -> Archive:
    archive = Archive([_layer()])
    archive.blobs[digest(archive.layers[0]).removeprefix("sha256:")] = b""
    return archive


def _bomb() -> Archive:
    return Archive([_layer((entry("zeros"), b"\0" * (MOST + 1)))], compressed=True)


def _many_files() -> Archive:
    members = [(entry(f"f{number}"), b"") for number in range(MOST_FILES + 1)]
    return Archive([tar_of(members)], compressed=True)


def _huge_header() -> Archive:
    """A header of extended attributes that claims four gigabytes; behind it, compressed zeros."""
    header = entry("header", tarfile.XHDTYPE, size=4 << 30).tobuf(tarfile.USTAR_FORMAT)
    return Archive([header + b"\0" * (2 << 20)], compressed=True)


def _through_a_link() -> Archive:
    """A link out of the image, then a file through it: the second layer would write to the machine."""
    return Archive(
        [_layer((entry("out", tarfile.SYMTYPE, linkname="../../.."), b""), (entry("out/x"), b"x"))]
    )


def _hard_link_to_a_link() -> Archive:
    return Archive(
        [
            _layer(
                (entry("link", tarfile.SYMTYPE, linkname="/etc/shadow"), b""),
                (entry("copy", tarfile.LNKTYPE, linkname="link"), b""),
            )
        ]
    )


def _endless_links() -> Archive:
    return Archive(
        [
            _layer(
                (entry("a", tarfile.SYMTYPE, linkname="b"), b""),
                (entry("b", tarfile.SYMTYPE, linkname="a"), b""),
                (entry("a/file"), b"x"),
            )
        ]
    )


def _sparse() -> Archive:
    member = entry("holes", pax_headers={"GNU.sparse.map": "0,1", "GNU.sparse.size": str(1 << 40)})
    return Archive([_layer((member, b"x"))])


def _nested_indexes() -> Archive:
    archive = Archive([_layer()])
    kind = "application/vnd.oci.image.index.v1+json"
    listed: list[object] = []
    for _ in range(6):
        inner = json.dumps({"schemaVersion": 2, "manifests": listed}).encode()
        archive.blobs[digest(inner).removeprefix("sha256:")] = inner
        listed = [{"mediaType": kind, "digest": digest(inner), "size": len(inner)}]
    archive.index_changes = {"manifests": listed}
    return archive


def _lying_size() -> Archive:
    archive = Archive([_layer()])
    layer = {"mediaType": LAYER, "digest": digest(archive.layers[0]), "size": 1}
    archive.manifest_changes = {"layers": [layer]}
    archive.blobs[digest(archive.layers[0]).removeprefix("sha256:")] = archive.layers[0]
    return archive


HOSTILE: dict[str, tuple[Callable[[], Archive], str]] = {
    "absolute path": (lambda: _hidden("/etc/cron.d/evil"), "absolute path"),
    "path upwards": (lambda: _hidden("../../evil"), "leads upwards"),
    "path upwards in the middle": (lambda: _hidden("etc/../../evil"), "leads upwards"),
    "path too long": (lambda: _hidden("a/" * 3000 + "x"), "too long or too deep"),
    "name too long": (lambda: _hidden("n" * 300), "impossible name"),
    "link upwards": (lambda: _link("evil", "../../../../etc/passwd"), "leads out of the image"),
    "absolute link upwards": (lambda: _link("evil", "/../etc/passwd"), "leads out of the image"),
    "empty link": (lambda: _link("evil", ""), "impossible place"),
    "file through a link": (_through_a_link, "leads out of the image"),
    "endless links": (_endless_links, "too many links"),
    "hard link out": (lambda: _link("evil", "/etc/shadow", tarfile.LNKTYPE), "absolute path"),
    "hard link upwards": (lambda: _link("evil", "../../etc/shadow", tarfile.LNKTYPE), "leads upwards"),
    "hard link to nothing": (lambda: _link("evil", "etc/none", tarfile.LNKTYPE), "no file of the image"),
    "hard link to a link": (_hard_link_to_a_link, "no file of the image"),
    "block device": (lambda: _device(tarfile.BLKTYPE), "is a device"),
    "character device": (lambda: _device(tarfile.CHRTYPE), "is a device"),
    "pipe": (lambda: _device(tarfile.FIFOTYPE), "is a device"),
    "unknown kind of member": (lambda: _device(b"Z"), "unknown kind"),
    "hides its own folder": (lambda: _hidden("etc/.wh..."), "hides nothing"),
    "hides the root": (lambda: _hidden(".wh."), "hides nothing"),
    "bomb": (_bomb, "unpacks to more"),
    "too many files": (_many_files, "too many files"),
    "huge header": (_huge_header, "larger than any sound one"),
    "sparse file": (_sparse, "sparse"),
    "impossible owner": (lambda: Archive([_layer((entry("x", uid=2**40), b"x"))]), "impossible owner"),
    "layer is no tar": (lambda: Archive([b"nonsense" * 200]), "not a sound tar"),
    "layer cut short": (
        lambda: Archive([_layer((entry("x"), b"x" * 4096))[:3000]]),
        "early|not a sound tar",
    ),
    "broken compression": (
        lambda: Archive([gzip.compress(_layer())[:-20]], layer_type=LAYER + "+gzip"),
        "broken",
    ),
    "changed blob": (_changed_blob, "has the digest"),
    "missing blob": (_missing_blob, "is missing"),
    "lying size": (_lying_size, "size that is stated"),
    "lying layer digest": (lambda: Archive([_layer()], diff_ids=["sha256:" + "0" * 64]), "unpacks to"),
    "too few layer digests": (lambda: Archive([_layer()], diff_ids=[]), "states other layers"),
    "digest that is a path": (
        lambda: Archive(
            [_layer()],
            manifest_changes={"config": {"digest": "sha256:../../../etc/passwd", "size": 1}},
        ),
        "not a digest",
    ),
    "unknown compression": (lambda: Archive([_layer()], layer_type=LAYER + "+zstd"), "not read here"),
    "unknown manifest": (
        lambda: Archive(
            [_layer()], index_changes={"manifests": [{"mediaType": "x", "digest": "sha256:0", "size": 1}]}
        ),
        "not a digest",
    ),
    "nested indexes": (_nested_indexes, "ever more indexes"),
    "manifests without end": (
        lambda: Archive([_layer()], index_changes={"manifests": [{}] * 101}),
        "lists too much",
    ),
    "layers without end": (
        lambda: Archive([_layer()], manifest_changes={"layers": [{}] * 128}),
        "too many layers",
    ),
    "other version": (lambda: Archive([_layer()], layout=b'{"imageLayoutVersion": "9"}'), "version 1"),
    "index is no object": (lambda: Archive([_layer()], layout=b"[]"), "not an object"),
    "deep document": (lambda: Archive([_layer()], layout=b"[" * 90_000), "not JSON"),
    "absolute path outside": (lambda: Archive([_layer()], extra=[(entry("/evil"), b"x")]), "absolute path"),
    "path upwards outside": (lambda: Archive([_layer()], extra=[(entry("../evil"), b"x")]), "leads upwards"),
    "link for a blob": (
        lambda: Archive(
            [_layer()],
            extra=[(entry("blobs/sha256/" + "0" * 64, tarfile.SYMTYPE, linkname="/etc/passwd"), b"")],
        ),
        "not a plain file",
    ),
    "blob twice": (
        lambda: Archive([_layer()], extra=[(entry(f"blobs/sha256/{digest(_layer())[7:]}"), _layer())]),
        "twice",
    ),
    "two indexes": (lambda: Archive([_layer()], extra=[(entry("index.json"), b"{}")]), "two files"),
    "other machine": (
        lambda: Archive([_layer()], platform={"os": "plan9", "architecture": "mips"}),
        "no image for linux",
    ),
}


@pytest.mark.parametrize("attack", HOSTILE)
def test_a_hostile_archive_is_refused_and_leaves_nothing(
    store: ImageStore, tmp_path: Path, attack: str
) -> None:
    make, match = HOSTILE[attack]
    path = make().write(tmp_path / "image.tar")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BadArchive, match=match) as refusal:
        store.import_archive(path)
    assert str(refusal.value).startswith(str(path)) and "\n" not in str(refusal.value)
    assert store.held() == []
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_no_archive_is_refused(store: ImageStore, tmp_path: Path) -> None:
    for content in (b"", b"nonsense", b"\x1f\x8bnonsense", os.urandom(4096)):
        path = tmp_path / "image.tar"
        path.write_bytes(content)
        with pytest.raises(BadArchive):
            store.import_archive(path)
    with pytest.raises(BadArchive, match="No such file"):
        store.import_archive(tmp_path / "none.tar")


def test_layers_lie_over_each_other(store: ImageStore, tmp_path: Path) -> None:
    below = tar_of(
        [
            (entry("usr/bin", tarfile.DIRTYPE), b""),
            (entry("usr/bin/tool"), b"old"),
            (entry("bin", tarfile.SYMTYPE, linkname="usr/bin"), b""),
            (entry("gone"), b"x"),
            (entry("opaque/old"), b"x"),
            (entry("twice/file"), b"x"),
        ]
    )
    above = tar_of(
        [
            (entry("bin/tool"), b"new"),  # through the link below, within the image
            (entry(".wh.gone"), b""),
            (entry("opaque/new"), b"y"),
            (entry("opaque/.wh..wh..opq"), b""),
            (entry("twice"), b"a file now"),
            (entry("same", tarfile.LNKTYPE, linkname="usr/bin/tool"), b""),
            (entry("set-user", mode=0o4755), b"s"),
        ]
    )
    (image,) = store.import_archive(Archive([below, above]).write(tmp_path / "a.tar"))
    unpacked = store.find(image.names[0])
    assert unpacked is not None
    root = unpacked.root
    assert (root / "usr/bin/tool").read_text() == "new" and (root / "bin").is_symlink()
    assert not (root / "gone").exists()
    assert sorted(path.name for path in (root / "opaque").iterdir()) == ["new"]
    assert (root / "twice").read_text() == "a file now"
    assert (root / "same").samefile(root / "usr/bin/tool")
    assert (root / "set-user").stat().st_mode & 0o7777 == 0o4755


def test_images_are_listed_found_and_removed(store: ImageStore, tmp_path: Path) -> None:
    config = {"Entrypoint": ["/a"], "Cmd": ["b"], "Env": ["X=1", "Y"], "WorkingDir": "/w", "User": "7:8"}
    path = Archive([_layer()], config, name="team/app:1").write(tmp_path / "a.tar")
    (image,) = store.import_archive(path)
    store.import_archive(path, "other")
    again = ImageStore(tmp_path / "images", MOST, budget=MOST)  # as after a restart
    (held,) = again.held()
    assert held.names[:2] == ("docker.io/team/app:1", "docker.io/library/other:latest")
    assert held.names[2] == image.names[-1] and held.size > 0
    found = again.find(image.names[-1])
    assert found is not None and found == again.find("other") == again.find(f"other@{found.digest}")
    assert (found.entrypoint, found.command, found.folder) == (("/a",), ("b",), "/w")
    assert found.environment == {"X": "1"} and found.user() == (7, 8)
    assert again.remove("team/app:1", lambda: {found.digest}), "another name is left"
    assert not again.remove("team/app:1")
    with pytest.raises(UsageError, match="in use"):
        again.remove("other", lambda: {found.digest})
    assert again.remove("other") and not again.remove("other") and again.held() == []
    (image,) = store.import_archive(path)
    store.import_archive(path, "other")
    assert store.remove(image.names[-1]) and store.held() == [], "by its digest it goes with all its names"
    assert list((tmp_path / "images").iterdir()) == [tmp_path / "images" / "images.json"]


def test_a_name_is_of_the_image_that_had_it_last(store: ImageStore, tmp_path: Path) -> None:
    for content in (b"1", b"2"):
        store.import_archive(Archive([_layer((entry("v"), content))]).write(tmp_path / "a.tar"), "app:1")
    found = store.find("app:1")
    assert found is not None and (found.root / "v").read_bytes() == b"2"
    assert len(store.held()) == 2


def test_an_image_without_a_name_needs_one(store: ImageStore, tmp_path: Path) -> None:
    path = Archive([_layer()], name="").write(tmp_path / "a.tar")
    with pytest.raises(UsageError, match="state one"):
        store.import_archive(path)
    assert store.held() == []


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "images", MOST, budget=2_500_000)
    for number in range(3):
        layer = _layer((entry("big"), os.urandom(1_000_000)))
        store.import_archive(Archive([layer]).write(tmp_path / "a.tar"), f"app:{number}")
    store.use("app:0")
    running = store.find("app:1")
    assert running is not None
    gone = store.collect(lambda: {running.digest})
    assert [image.names[0] for image in gone] == ["docker.io/library/app:2"]
    assert store.collect(lambda: set()) == []


def test_an_import_that_was_killed_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    ImageStore(folder, MOST, budget=MOST)
    (folder / ".draft-x" / "blobs").mkdir(parents=True)
    (folder / ("0" * 64) / "root").mkdir(parents=True)
    ImageStore(folder, MOST, budget=MOST)
    assert list(folder.iterdir()) == []


def test_names_in_full() -> None:
    assert full_name("host:5000/a") == "host:5000/a:latest"
    assert full_name("a@sha256:0") == "docker.io/library/a@sha256:0"
