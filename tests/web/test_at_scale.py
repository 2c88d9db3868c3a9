"""What the dashboard costs beside a large cluster; the figures are in docs/performance.md."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette", reason="a cluster needs the extra `engine`")
pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra `dev`")

from tests.web.at_scale import measure
from tests.web.conftest import BROWSER


@pytest.mark.skipif(BROWSER is None, reason="needs a Chromium to show the pages")
@pytest.mark.parametrize(
    ("nodes", "pods", "seconds"), [(200, 2_000, 3.0), (5_000, 50_000, 20.0)], ids=["small", "large"]
)
def test_nodes_are_painted_soon_and_updates_are_cheap(nodes: int, pods: int, seconds: float) -> None:
    found = measure(nodes, pods, seconds)
    assert found.first_paint < 2.0
    assert found.update_mean < 100.0
    assert found.server_cpu < 0.10
