"""The browser and the servers that the tests of the dashboard share: each is started once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.cli.cluster.clusters import Cluster

BROWSER = next((path for name in ("chromium", "google-chrome") if (path := shutil.which(name))), None)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One Chromium for the package: its driver keeps an event loop in this thread while it is there."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra `dev`")
    if BROWSER is None:
        pytest.skip("needs a Chromium to show the pages")
    with playwright.sync_playwright() as playing:
        launched = playing.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


@pytest.fixture(scope="package")
def cluster(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A real `proreus up`; it comes with the browser, so that nobody starts it in vain."""
    pytest.importorskip("starlette", reason="a cluster needs the extra `engine`")
    from tests.cli.cluster.clusters import started

    folder = tmp_path_factory.mktemp("dashboard") / "state"
    with started(folder, "--nodes", "12", "--shadow", "best_fit") as made:
        yield made


@pytest.fixture(scope="package")
def viewer(cluster: Cluster) -> str:
    """The address that `up` prints, with a token that only reads."""
    (token,) = [
        line.split(",")[0]
        for line in (Path(cluster.folder) / "tokens").read_text().splitlines()
        if line.endswith(",viewer")
    ]
    return f"{cluster.ready['page']}#token={token}"
