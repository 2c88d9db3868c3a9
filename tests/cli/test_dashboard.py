"""`proreus dashboard` from the command line."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client", reason="a dashboard needs the extra `serve`")

import httpx

from tests.cli.cluster.clusters import until
from tests.cli.runner import Proreus, assert_refused, command, environment


def test_what_it_cannot_show_is_one_line(proreus: Proreus, tmp_path: Path) -> None:
    assert_refused(proreus("dashboard", "nowhere"), 2, "nowhere", "not a folder")
    (tmp_path / "empty").mkdir()
    assert_refused(proreus("dashboard", str(tmp_path / "empty")), 2, "holds neither a training run")
    assert_refused(proreus("dashboard", "--host", "0.0.0.0"), 2, "--token-file")
    assert_refused(proreus("dashboard", "--port", "70000"), 2, "outside 0..65535")
    assert "Example: proreus dashboard runs" in proreus("dashboard", "--help").out


def test_it_is_shown_until_told_to_end(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    process = subprocess.Popen(
        command("dashboard", "--port", "0", "--json", str(path)),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        until(lambda: path.exists() or process.poll() is not None)
        ready = json.loads(path.read_text())
        page = httpx.get(ready["page"])
        assert page.status_code == 200 and "default-src 'none'" in page.headers["content-security-policy"]
        assert httpx.get(f"{ready['page']}dashboard/about").json()["place"] == "alone"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0 and ready["page"] in out.decode() and "Traceback" not in err.decode()
    finally:
        process.kill()
