"""The status page as a browser lays it out, on a phone and on a desk: nothing is cut, bars can be read."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from proreus.web import status_page

BROWSER = next((path for name in ("chromium", "google-chrome") if (path := shutil.which(name))), None)
LONG = "a-deployment-with-a-rather-long-name-5f7c9d8b6d-x2x7q"
REASON = "no node fits " * 9
TIME = "2026-01-01T00:00:00Z"
EVENTS: dict[str, dict[str, Any]] = {
    "status": {
        "version": "0.1.0",
        "store": "sqlite:/home/somebody/with/a/long/way/to/.local/state/proreus/cluster.db",
        "started": TIME,
        "phases": {"Running": 1200, "Pending": 30, "Succeeded": 4000, "Failed": 7},
        "requested": {
            "cpu": [120.5, 256.0],
            "memory": [9.1e11, 1.1e12],
            "nvidia.com/gpu": [12.0, 16.0],
            "ephemeral-storage": [1e11, 4e12],
        },
        "used": {"cpu": 96.4, "memory": 6.2e11},
        "nodes": {"ready": 3, "total": 4, "cordoned": 1},
        "schedulers": [{"name": "default-scheduler", "policy": "learned", "shadow": "best_fit"}],
        "queue": {
            "length": 1,
            "pods": [{"namespace": "production", "name": LONG, "created": TIME, "reason": REASON}],
        },
    },
    "nodes": {
        "all": True,
        "nodes": [
            {
                "name": f"gpu-machine-{number}.region-a.example.internal",
                "ready": number != 2,
                "cordoned": number == 3,
                "pods": [number, 110],
                "cpu": [number + 1.0, 32.0],
                "memory": [2.0**34, 2.0**37],
                "gpu": [1.0, 4.0],
            }
            for number in range(4)
        ],
    },
    "decisions": {
        "decisions": [
            {
                "time": TIME,
                "namespace": "production",
                "pod": LONG,
                "action": "place",
                "node": "gpu-machine-1.region-a.example.internal",
                "policy": "learned",
                "reasons": ["the fullest node that fits, by 0.12 over gpu-machine-0", "two of four GPUs"],
                "shadow": {
                    "policy": "best_fit",
                    "action": "place",
                    "node": "gpu-machine-0.region-a.example.internal",
                    "differs": True,
                    "would": "0.5 more GPUs in pieces that nobody can take",
                },
            }
        ]
    },
}
LOOK = """<!doctype html><body style="margin:0">
<iframe id="page" src="/" style="width:WIDTHpx;height:2400px;border:0"></iframe><pre id="found"></pre><script>
const page = document.getElementById("page");
const look = () => {
  const inside = page.contentDocument;
  if (!inside.querySelector("#shadow tr")) { setTimeout(look, 50); return; }
  inside.querySelectorAll("details").forEach((more) => { more.open = true; });
  const wide = inside.documentElement.clientWidth;
  const shown = [...inside.querySelectorAll("header *, main *")].filter((part) => part.getClientRects().length
    && !part.closest("thead") && !part.closest(".bar"));
  const told = (part) => `${part.tagName}.${part.className} ${part.textContent.slice(0, 40)}`;
  document.getElementById("found").textContent = "FOUND" + JSON.stringify({
    page: inside.documentElement.scrollWidth,
    beyond: shown.filter((part) => part.getBoundingClientRect().right > wide + 1).map(told),
    cut: [...inside.querySelectorAll("header, section, .scroll, td, .amount, h2, .node")]
      .filter((part) => part.scrollWidth > part.clientWidth + 1 &&
        getComputedStyle(part).display !== "inline")
      .map(told),
    bars: [...inside.querySelectorAll(".bar")].map((bar) => bar.getBoundingClientRect().width),
    rows: inside.querySelectorAll("tbody tr").length,
    cells: [...inside.querySelectorAll("td")].map((cell) => cell.getBoundingClientRect().width),
  }) + "END";
};
look();
</script></body>"""


class _Doors(BaseHTTPRequestHandler):
    """The page, what it follows, and the page that looks at it at some width."""

    def do_GET(self) -> None:
        """Answer, and end the stream: a browser that waits for more would never be done."""
        place, kind = self.path.partition("?")[0], "text/html; charset=utf-8"
        match place:
            case "/":
                content = status_page()
            case "/v1/events":
                kind = "text/event-stream"
                lines = (
                    f"event: {name}\ndata: {json.dumps(payload)}\n\n" for name, payload in EVENTS.items()
                )
                content = "".join(lines).encode()
            case _:
                content = LOOK.replace("WIDTH", place.rpartition("/")[2]).encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Its address."""
    doors = ThreadingHTTPServer(("127.0.0.1", 0), _Doors)
    threading.Thread(target=doors.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{doors.server_port}"
    doors.shutdown()
    doors.server_close()


@pytest.mark.skipif(BROWSER is None, reason="needs a Chromium to lay the page out")
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_cut_and_bars_have_a_width(server: str, width: int) -> None:
    assert BROWSER is not None
    words = ("--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--window-size=1400,2600")
    ended = subprocess.run(
        [BROWSER, *words, "--virtual-time-budget=5000", f"{server}/look/{width}"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    match = re.search(r"FOUND(\{.*\})END", ended.stdout, re.DOTALL)
    assert match, ended.stderr[-2000:]
    document: dict[str, Any] = json.loads(html.unescape(match[1]))
    assert document["rows"] == 3
    assert document["page"] <= width, "the page itself never scrolls sideways"
    assert document["beyond"] == [] and document["cut"] == []
    assert min(document["bars"]) >= 60, "a bar that cannot be seen says nothing"
    assert min(document["cells"]) >= 45, "a word a line is no column"
