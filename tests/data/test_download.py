"""Fetching: what is kept is what was published, from whatever server, over whatever connection."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from proreus.data.catalogue import known, remotes_of
from proreus.data.download import fetch, from_mirror
from proreus.data.remotes import Remote
from proreus.model.errors import InputError, WorkError
from proreus.worlds import registered, world

CONTENT = bytes(range(256)) * 1024
FILE = "folder/data.csv"


@dataclass
class Server:
    """What the server does, and what it was asked for."""

    address: str = ""
    cut_after: int | None = None
    """Bytes of an answer before the connection breaks."""
    ranges: bool = True
    content: bytes = CONTENT
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range", "")
            server.asked.append(asked)
            if not self.path.endswith(FILE):
                self.send_error(404)
                return
            first = re.fullmatch(r"bytes=(\d+)-", asked)
            begin = int(first[1]) if first and server.ranges else 0
            content = server.content[begin:]
            self.send_response(206 if begin else 200)
            self.send_header("Content-Length", str(len(content)))
            if begin:
                self.send_header("Content-Range", f"bytes {begin}-{len(server.content) - 1}/*")
            self.end_headers()
            self.wfile.write(content if server.cut_after is None else content[: server.cut_after])

        def log_message(self, format: str, *words: object) -> None:
            """Not a word."""

    serving = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    server.address = f"http://127.0.0.1:{serving.server_port}"
    yield server
    serving.shutdown()
    serving.server_close()


@pytest.fixture
def remote(server: Server) -> Remote:
    return Remote(FILE, f"{server.address}/{FILE}", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_file_comes_once(remote: Remote, server: Server, tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    assert fetch(remote, tmp_path, lambda done, total: heard.append((done, total)))
    assert (tmp_path / FILE).read_bytes() == CONTENT and heard[-1] == (len(CONTENT), len(CONTENT))
    assert not fetch(remote, tmp_path) and len(server.asked) == 1
    assert names(tmp_path) == ["data.csv"]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_connection_is_gone_on_with(
    remote: Remote, server: Server, ranges: bool, tmp_path: Path
) -> None:
    server.cut_after, server.ranges = 100_000, ranges
    with pytest.raises(WorkError, match=f"connection broke.*by hand: {remote.address} belongs at {tmp_path}"):
        fetch(remote, tmp_path)
    assert names(tmp_path) == [".data.csv.part"]
    server.cut_after = None
    assert fetch(remote, tmp_path)
    assert server.asked == ["", "bytes=100000-"]
    assert (tmp_path / FILE).read_bytes() == CONTENT and names(tmp_path) == ["data.csv"]


def test_what_is_not_what_was_published_is_not_kept(remote: Remote, server: Server, tmp_path: Path) -> None:
    for content in (CONTENT[:-1] + b"x", CONTENT + b"more"):
        server.content = content
        with pytest.raises(WorkError, match="not what was published"):
            fetch(remote, tmp_path)
        assert names(tmp_path) == []


def test_what_is_here_and_is_another_file_stays(remote: Remote, server: Server, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / FILE).write_text("mine")
    with pytest.raises(InputError, match="another file is here"):
        fetch(remote, tmp_path)
    assert (tmp_path / FILE).read_text() == "mine" and not server.asked


def test_no_such_file_and_no_such_server(remote: Remote, server: Server, tmp_path: Path) -> None:
    with pytest.raises(WorkError, match="the server answers 404"):
        fetch(replace(remote, address=f"{server.address}/nothing"), tmp_path)
    with pytest.raises(WorkError, match=r"no connection.*by hand: http://127.0.0.1:9/x belongs at"):
        fetch(replace(remote, address="http://127.0.0.1:9/x"), tmp_path)
    assert names(tmp_path) == []


def test_a_mirror_has_the_names_of_a_data_folder(remote: Remote, server: Server, tmp_path: Path) -> None:
    elsewhere = replace(remote, address="http://127.0.0.1:9/x")
    assert fetch(from_mirror(elsewhere, f"{server.address}/"), tmp_path)
    assert from_mirror(elsewhere, "") == elsewhere


@pytest.mark.parametrize("name", [*registered()])
def test_every_dataset_says_where_it_comes_from(name: str) -> None:
    datasets = world(name).datasets
    for key, dataset in datasets.items():
        assert dataset.licence and dataset.home.startswith("https://"), key
        for remote in dataset.remotes:
            assert re.fullmatch(r"[0-9a-f]{64}", remote.sha256) and remote.size > 0
            assert re.search(r"/[0-9a-f]{40}/", remote.address), "an address that cannot change"
        if dataset.remotes and "*" not in key:
            assert {published.file for published in remotes_of(datasets, key)} == set(dataset.files)


def test_a_member_of_a_family_has_its_own_files() -> None:
    datasets = world("pods").datasets
    files = [remote.file for remote in remotes_of(datasets, "openb/gpuspec10")]
    assert files == ["openb/openb_node_list_gpu_node.csv", "openb/openb_pod_list_gpuspec10.csv"]
    assert len(remotes_of(datasets, "openb")) == len(remotes_of(datasets, "openb/*")) == 25
    physical = [remote.file for remote in remotes_of(datasets, "gavel/small_test")]
    assert physical == ["gavel/simulation_throughputs.json", "gavel/physical_cluster/small_test.trace"]
    assert "openb/*" in known(datasets, None)
