"""The report as a browser lays it out: nothing is cut at 1400 pixels, and at 420 a hint says what goes on."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from proreus.compare.outputs import write_outputs
from tests.compare.compare_cases import made

BROWSER = next((found for name in ("chromium", "google-chrome") if (found := shutil.which(name))), None)
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
    assert BROWSER is not None
    (report / "look.html").write_text(LOOK.format(width=width))
    words = ("--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom")
    done = subprocess.run(
        [BROWSER, *words, "--virtual-time-budget=4000", (report / "look.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
    )
    told = re.search(r"FOUND(\{.*\})END", done.stdout)
    assert told, done.stderr[-2000:]
    found = json.loads(told[1])
    assert (found["cut"] <= 4) is fits and found["hint"] is not fits
    assert found["page"] <= width, "the page itself never scrolls sideways"
    assert found["name"] <= (400 if fits else 140), "names of measures leave room for figures"
    assert found["hovered"] > 0 and found["hidden"] == 0, "a hidden policy brings nothing forward"
    assert found["links"] == 3
