"""`proreus data fetch`: one line and the right exit code, whatever the network does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cli.runner import Proreus, assert_refused
from tests.real_data import real_data

OFFLINE = ("--mirror", "http://127.0.0.1:9")


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder without a word."""

    def log_message(self, format: str, *words: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def real() -> Path:
    """Real data, looked for before the tests of the command line forget where it is."""
    return real_data("k8ssim")


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder, and where it is served."""
    folder = tmp_path / "served"
    folder.mkdir()
    serving = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{serving.server_port}"
    serving.shutdown()
    serving.server_close()


def test_offline_says_what_to_fetch_by_hand_and_where_to_put_it(proreus: Proreus, tmp_path: Path) -> None:
    ended = proreus("data", "fetch", "k8ssim/mrp", "--data", "mine", *OFFLINE)
    assert_refused(ended, 1, "no connection", "belongs at mine/k8ssim/nodes_7-0.yaml")
    assert "licence: " in ended.out


def test_wrong_names(proreus: Proreus) -> None:
    assert_refused(proreus("data", "fetch"), 2, "--list")
    assert_refused(proreus("data", "fetch", "huawi"), 2, "unknown dataset 'huawi'; did you mean 'huawei'?")
    assert_refused(proreus("data", "fetch", "openb/nothing"), 2, "openb/default")
    assert_refused(proreus("data", "fetch", "windows/monitor"), 2, "by hand", "https://")


def test_a_wrong_file_and_a_missing_one(proreus: Proreus, mirror: tuple[Path, str], tmp_path: Path) -> None:
    folder, address = mirror
    words = ("data", "fetch", "k8ssim/mrp", "--data", str(tmp_path / "mine"), "--mirror", address)
    assert_refused(proreus(*words), 1, "the server answers 404")
    (folder / "k8ssim").mkdir()
    (folder / "k8ssim" / "nodes_7-0.yaml").write_bytes(b"x" * 3310)
    assert_refused(proreus(*words), 1, "not what was published", "nothing is kept")
    assert not any(path.is_file() for path in (tmp_path / "mine").rglob("*"))


def test_what_was_fetched_is_played(
    proreus: Proreus, mirror: tuple[Path, str], real: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = mirror
    (folder / "k8ssim").symlink_to(real / "k8ssim")
    monkeypatch.delenv("PROREUS_DATA", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(Path("home").absolute()))
    words = ("data", "fetch", "k8ssim/mrp", "--mirror", address, "--json", "fetched.json")
    assert proreus(*words).code == 0
    assert [file["fetched"] for file in json.loads(Path("fetched.json").read_text())["files"]] == [True, True]
    assert "here already" in proreus(*words).out
    assert proreus("simulate", "pods", "--scenario", "k8ssim/mrp").code == 0
    listed = proreus("data", "list", "--json", "list.json")
    assert "home/proreus" in listed.out
    here = {row["name"]: row["here"] for row in json.loads(Path("list.json").read_text())["datasets"]}
    assert here["k8ssim/mrp"] and not here["k8ssim/large"]
    assert_refused(proreus("simulate", "pods", "--scenario", "k8ssim/large"), 2, "no such file")
