"""The files that `docs/extending.md` shows are run as they stand there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.runner import Proreus
from tests.conformance.cases import KINDS, Case

DOCUMENT = Path(__file__).parents[2] / "docs" / "extending.md"
FILES = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", DOCUMENT.read_text(), re.DOTALL))
POLICIES = {
    "mine_pods.py": ("EmptiestNode", KINDS["pods", ""], "kube"),
    "mine_vms.py": ("TightestServer", KINDS["vms", ""], "best_fit"),
    "mine_windows.py": ("Leveller", KINDS["rebalance", "windows"], "hotspot"),
    "mine_snapshots.py": ("SmallestFirst", KINDS["rebalance", "snapshots"], "hotspot"),
}


def test_every_file_of_the_document_is_tried() -> None:
    assert set(FILES) == {*POLICIES, "mine_scenario.py"}
    assert all(15 <= len(text.splitlines()) <= 30 for text in FILES.values()), "files of about twenty lines"


@pytest.mark.parametrize("file", POLICIES)
def test_a_policy_of_the_document_is_compared(file: str, proreus: Proreus, tmp_path: Path) -> None:
    name, case, rule = POLICIES[file]
    Path(file).write_text(FILES[file])
    mine = f"./{file}:{name}"
    words = ("--scenario", case.file(tmp_path), "--policies", f"{rule},{mine}", "--seeds", "1")
    ended = proreus("compare", case.world.name, *words, "--processes", "1", "--json", "rows.json")
    assert ended.code == 0, ended.err
    deciding = case.scenario.headings.deciding[0]
    means = {row["policy"]: row["mean"] for row in _rows() if row["measure"] == deciding}
    assert set(means) == {rule, mine}


def test_reasons_of_the_document_are_printed(proreus: Proreus, tmp_path: Path) -> None:
    case = KINDS["pods", ""]
    Path("mine_pods.py").write_text(FILES["mine_pods.py"])
    words = ("--scenario", case.file(tmp_path), "--policy", "./mine_pods.py:EmptiestNode")
    ended = proreus("simulate", "pods", *words, "--explain", _first_subject(case))
    assert ended.code == 0, ended.err
    assert "Most CPU left wins." in ended.out


def test_the_scenario_of_the_document_is_compared(proreus: Proreus) -> None:
    Path("mine_scenario.py").write_text(FILES["mine_scenario.py"])
    words = ("--scenario", "./mine_scenario.py:AtNight", "--policies", "kube,best_fit", "--seeds", "1")
    ended = proreus("compare", "pods", *words, "--processes", "1", "--json", "rows.json")
    assert ended.code == 0, ended.err
    assert {row["scenario"] for row in _rows()} == {"small at night"}


def _first_subject(case: Case) -> str:
    simulation = case.scenario.start(case.scenario.load(0), 0)
    simulation.next_decision()
    return simulation.subject()


def _rows() -> list[dict[str, object]]:
    document = json.loads(Path("rows.json").read_text())
    rows: list[dict[str, object]] = document["rows"] if isinstance(document, dict) else document
    return rows
