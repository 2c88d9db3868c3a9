"""Reasons as a table: whose they are, and that they fit a terminal of 80 columns."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from proreus.cli.explanation_tables import explanation_tables
from proreus.contract.world import Words
from proreus.policies.protocol import Explanation, Verdict
from tests.cli.runner import Proreus

WORDS = Words("instances", "instance", "decision")


def printed(explanation: Explanation, width: int = 80) -> list[str]:
    """On a terminal."""
    text = io.StringIO()
    console = Console(file=text, width=width, color_system=None)
    console.print(*explanation_tables(explanation, object(), WORDS, width))
    return text.getvalue().splitlines()


def test_what_one_place_alone_has_is_its_own() -> None:
    verdicts = (
        Verdict("prompt pool", "", {"pending prompts": 2.5, "wanted use": 0.6}, 4.0),
        Verdict("token pool", "", {"KV memory": 0.7, "wanted use": 0.6}, 3.0),
    )
    explanation = Explanation("apa", "12", None, verdicts, "A note.", "starts 2 prompt", "", "pool", "wanted")
    lines = printed(explanation)
    assert lines[0].rstrip() == "decision 12 starts 2 prompt (apa)"
    (head,) = [line for line in lines if "wanted" in line and "┃" in line]
    assert "pending prompts" in head and "KV memory" in head and "wanted use" not in head
    (row,) = [line for line in lines if "token pool" in line]
    assert "0.700" in row and "2.500" not in row
    assert "The same everywhere: wanted use 0.600." in " ".join(" ".join(lines).split())


@pytest.mark.parametrize("width", [50, 80, 100, 160])
def test_many_scores_stand_below_each_other_rather_than_break(width: int) -> None:
    names = [f"scarcer memory free here, squared {k}" for k in range(8)]
    verdicts = tuple(
        Verdict(f"server {n}/0", "", {name: -1.5 * k - n / 8 for k, name in enumerate(names)}, -6.002 - n)
        for n in range(3)
    )
    lines = printed(Explanation("planner", "7", 0, verdicts, "A note.", "goes on", "server 0/0"), width)
    assert max(map(len, lines)) <= width
    cells = [cell.strip() for line in lines if line.startswith("│") for cell in line.strip("│").split("│")]
    figures = [f"{value:,.3f}" for verdict in verdicts for value in verdict.scores.values() if value % 1]
    assert all(figure in cells for figure in (*figures, "-6.002", "-8.002"))
    heads = " ".join(line for line in lines if line.startswith("┃"))
    assert heads.count("squared") == 8 and "A note." in lines[-1]
    rows = [line for line in lines if line.startswith("│ server 1/0")]
    assert len(rows) == sum(line.startswith("┡") for line in lines), "a row in every table"


def test_a_scaling_step_says_what_was_seen_and_why_so_many(proreus: Proreus) -> None:
    words = ("--scenario", "steady", "--seconds", "200", "--policy", "threshold", "--explain", "8")
    ended = proreus("simulate", "inference", *words)
    assert ended.code == 0, ended.err
    said = " ".join(ended.out.split())
    assert "t=90 s: decision 8 " in said and "(threshold)" in said
    for seen in ("requests/s", "active", "starting", "requests wait", "KV memory", "pending prompts"):
        assert seen in said
    assert max(map(len, ended.out.splitlines())) <= 80


def test_a_planner_says_what_its_futures_came_to(proreus: Proreus) -> None:
    words = ("--scenario", "gpu@20", "--policy", "planner", "--explain", "pod-00034")
    ended = proreus("simulate", "pods", *words)
    assert ended.code == 0, ended.err
    said = " ".join(ended.out.split())
    assert "pod-00034 goes to " in said and "(planner)" in said
    assert "Ahead of the next best" in said and "of the 16 futures that tell them apart" in said
    few = " ".join(proreus("simulate", "pods", *words, "--futures", "4").out.split())
    assert "of the 4 futures that tell them apart" in few
