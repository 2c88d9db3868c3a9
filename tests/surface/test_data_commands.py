"""`proreus data`: which datasets are known, and what cleaning makes of a log with faults."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.runner import Proreus
from tests.surface.pinning import assert_pinned, without_timings

LOG = "time,service,cpu,mem\n" + "".join(
    f"2026-01-01T00:{k // 60:02}:{k % 60:02}Z,{'shop' if k % 3 else 'mail'},{1 + k % 4},{1 + k % 2}Gi\n"
    for k in range(0, 3000, 41)
)
FAULTS = "2026-01-01T00:50:00Z,shop,-1,1Gi\n2026-01-01T00:50:01Z,shop,one,1Gi\n"


def test_the_datasets_are_those_that_were_known(proreus: Proreus, tmp_path: Path) -> None:
    assert proreus("data", "list", "--json", "r.json").code == 0
    datasets = json.loads((tmp_path / "r.json").read_text())["datasets"]
    assert_pinned("data/list", {each["name"]: each for each in datasets})


def test_cleaning_repairs_what_it_repaired(proreus: Proreus, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(LOG + LOG.splitlines(keepends=True)[-1] + FAULTS)
    ended = proreus("data", "clean", "log.csv", "--out", "cleaned", "--pods", "2", "--json", "r.json")
    assert (ended.code, ended.err) == (0, "")
    account = without_timings(json.loads((tmp_path / "r.json").read_text()))
    del account["peak_mib"]
    files = {path.name: path.read_text().splitlines() for path in (tmp_path / "cleaned").iterdir()}
    assert_pinned("data/clean", {"account": account, "files": files})
