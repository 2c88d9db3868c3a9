"""What `proreus compare` finds over seeds and policies, and which files it writes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.runner import Proreus
from tests.surface.pinning import assert_pinned, is_timing
from tests.surface.test_simulations import table

PODS = (
    "random,round_robin,first_fit,best_fit,worst_fit,dot_prod,gpu_packing,gpu_clustering,fgd,binpack,"
    "learned,kube,kube_plus"
)


@dataclass(frozen=True)
class Comparison:
    """A command of `proreus compare`."""

    name: str
    world: str
    flags: tuple[str, ...]


COMPARISONS = (
    Comparison("small", "pods", ("--policies", PODS, "--seeds", "1", "--seed", "5")),
    Comparison("gpu", "pods", ("--scenarios", "gpu@6,gpu@8", "--policies", "kube,fgd,learned")),
    Comparison(
        "small-random-ties",
        "pods",
        ("--scenario", "small", "--policies", "best_fit,kube", "--tie", "random", "--drop-failures", "True"),
    ),
    Comparison(
        "several", "vms", ("--scenarios", "recovering@5,waiting@3", "--starts", "2", "--limit", "1500")
    ),
    Comparison(
        "windows",
        "rebalance",
        ("--scenarios", "windows/serial,windows/parallel", "--policies", "hotspot,nothing,learned"),
    ),
    Comparison("snapshot", "rebalance", ("--scenario", "snapshot-small", "--budget", "4")),
)


@pytest.mark.parametrize("comparison", COMPARISONS, ids=lambda each: f"{each.world}-{each.name}")
def test_a_comparison_finds_what_it_found(comparison: Comparison, proreus: Proreus, tmp_path: Path) -> None:
    seeds = () if "--seeds" in comparison.flags else ("--seeds", "2")
    words = ("compare", comparison.world, *comparison.flags, *seeds, "--processes", "1")
    ended = proreus(*words, "--out", "out", "--json", "rows.json")
    assert (ended.code, ended.err) == (0, "")
    content = json.loads((tmp_path / "rows.json").read_text())
    assert json.loads((tmp_path / "out/rows.json").read_text()) == content
    rows = {
        f"{row['scenario']} {row['policy']} {row['measure']}": row
        for row in content.pop("rows")
        if not is_timing(row["measure"])
    }
    files = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.*"))
    outcome = {
        **content,
        "rows": rows,
        "files": files,
        "per_seed": table((tmp_path / "out/per_seed.csv").read_text()),
    }
    assert_pinned(f"compare/{comparison.world}-{comparison.name}", outcome)
