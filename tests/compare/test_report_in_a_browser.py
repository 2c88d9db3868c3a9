"""The report as a browser lays it out: nothing is cut at 1400 pixels, and at 420 a hint says what goes on."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from proreus.compare.outputs import write_outputs
from tests.compare.compare_cases import made, scaled

BROWSER = next((path for name in ("chromium", "google-chrome") if (path := shutil.which(name))), None)
POLICIES = (
    *("learned", "kube", "kube_plus", "fgd", "best_fit"),
    *("gpu_packing", "gpu_clustering", "dot_prod", "random"),
)
LOOK = """
<body style="margin:0"><iframe id="page" src="report.html" style="width:{width}px;height:900px;border:0">
</iframe><pre id="found"></pre><script>
onload = () => {{
  const inside = document.getElementById("page").contentDocument;
  const table = inside.querySelector(".wide"), first = inside.querySelector(".measures tbody th");
  const button = inside.querySelector(".curves button"), enter = new Event("pointerenter");
  const faded = () => inside.querySelectorAll(".curves .faded").length;
  let hovered = 0, hidden = 0;
  if (button) {{
    button.dispatchEvent(enter); hovered = faded();
    button.click(); button.dispatchEvent(enter); hidden = faded();
  }}
  document.getElementById("found").textContent = "FOUND" + JSON.stringify({{
    cut: table.scrollWidth - table.clientWidth,
    hint: !table.nextElementSibling.hidden,
    page: inside.documentElement.scrollWidth,
    name: first.getBoundingClientRect().width,
    hovered, hidden, links: inside.querySelectorAll("nav a").length,
  }}) + "END";
}};
</script></body>
"""


POOLS = """
<body style="margin:0"><iframe id="page" src="report.html" style="width:{width}px;height:900px;border:0">
</iframe><pre id="found"></pre><script>
onload = () => {{
  const inside = document.getElementById("page").contentDocument;
  const replay = inside.querySelector(".replay"), stage = replay.querySelector(".stage"), frames = [];
  const slider = replay.querySelector("input"), drawn = stage.getBoundingClientRect();
  for (let frame = 0; frame <= slider.max; frame++) {{
    slider.value = frame;
    slider.dispatchEvent(new Event("input"));
    const shown = [...stage.querySelectorAll("[data-box]:not(.absent)")];
    const places = shown.map((box) => box.getBoundingClientRect());
    frames.push({{
      heads: [...stage.querySelectorAll(".group")].map((head) => head.textContent),
      boxes: shown.length,
      busy: shown.filter((box) => box.classList.contains("s1")).length,
      apart: new Set(places.map((box) => `${{box.left}} ${{box.top}}`)).size,
      inside: places.every((box) => box.right <= drawn.right + 3 && box.bottom <= drawn.bottom + 3),
    }});
  }}
  const buttons = [...inside.querySelectorAll(".timelines button")];
  buttons[1].click();
  document.getElementById("found").textContent = "FOUND" + JSON.stringify({{
    frames, page: inside.documentElement.scrollWidth,
    points: inside.querySelectorAll(".trade .mean").length,
    names: [...inside.querySelectorAll(".trade .name")].map((name) => name.textContent),
    cut: [...inside.querySelectorAll(".trade .name")].filter((name) =>
      name.getBoundingClientRect().right > name.closest("figure").getBoundingClientRect().right).length,
    strips: inside.querySelectorAll(".timelines figure:not(.off) .strip").length,
    shown: inside.querySelectorAll(".timelines figure:not(.off)").length,
  }}) + "END";
}};
</script></body>
"""


def looked_at(folder: Path, page: str, *flags: str) -> dict[str, Any]:
    """What the script of a page finds in the report beside it."""
    assert BROWSER is not None
    (folder / "look.html").write_text(page)
    words = ("--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom")
    done = subprocess.run(
        [BROWSER, *words, *flags, "--virtual-time-budget=4000", (folder / "look.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
    )
    match = re.search(r"FOUND(\{.*\})END", done.stdout)
    assert match, done.stderr[-2000:]
    document: dict[str, Any] = json.loads(html.unescape(match[1]))
    return document


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine policies over two scenarios."""
    folder = tmp_path_factory.mktemp("report")
    values = {"jct_mean": [12345.6, 13345.2, 11111.1], "wait_mean": [123.4, 234.5, 211.1]}
    comparison = made(dict.fromkeys(POLICIES, values), scenarios=("one", "two"))
    write_outputs(comparison, folder, "proreus compare")
    return folder


@pytest.mark.skipif(BROWSER is None, reason="needs a Chromium to lay the page out")
@pytest.mark.parametrize(("width", "fits"), [(1400, True), (420, False)])
def test_policies_are_in_sight_or_said_to_be_further_right(report: Path, width: int, fits: bool) -> None:
    measured = looked_at(report, LOOK.format(width=width))
    assert (measured["cut"] <= 4) is fits and measured["hint"] is not fits
    assert measured["page"] <= width, "the page itself never scrolls sideways"
    assert measured["name"] <= (400 if fits else 140), "names of measures leave room for figures"
    assert measured["hovered"] > 0 and measured["hidden"] == 0, "a hidden policy brings nothing forward"
    assert measured["links"] == 3


@pytest.mark.skipif(BROWSER is None, reason="needs a Chromium to lay the page out")
@pytest.mark.parametrize("width", [1400, 420])
def test_pools_stand_together_and_points_have_their_names(width: int, tmp_path: Path) -> None:
    points = {
        "static": [(8.0, 99.0), (8.0, 98.0)],
        "kpa": [(6.0, 90.0), (7.0, 92.0)],
        "x" * 40: [(2.0, 40.0)],
    }
    write_outputs(scaled(points), tmp_path, "proreus compare")
    measured = looked_at(tmp_path, POOLS.format(width=width))
    assert measured["page"] <= width, "the page itself never scrolls sideways"
    assert measured["points"] == 3 and measured["cut"] == 0
    assert measured["names"] == ["static", "kpa", "x" * 17 + "…"]
    assert (measured["shown"], measured["strips"]) == (1, 3), "one policy was chosen"
    first, *_, last = measured["frames"]
    assert first["heads"] == ["prompt <b>: 1 starting", "token: 1 starting"]
    assert last["heads"] == ["prompt <b>: 3 busy", "token: 3 busy"]
    assert [frame["boxes"] for frame in measured["frames"]] == [2, 3, 4, 5, 6]
    assert all(frame["apart"] == frame["boxes"] and frame["inside"] for frame in measured["frames"])
    assert [frame["busy"] for frame in measured["frames"]] == [0, 0, 4, 5, 6]
