"""The six published policies on the openb workloads: ten seeds, each mean within half a point."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from proreus.compare.comparison import CompareRequest, Comparison, compare
from proreus.worlds.pods.scenarios import parse_scenario
from tests.real_data import real_data

PUBLISHED = {
    "random": "01-Random",
    "dot_prod": "02-DotProd",
    "gpu_clustering": "03-GpuClustering",
    "gpu_packing": "04-GpuPacking",
    "best_fit": "05-BestFit",
    "fgd": "06-FGD",
}
TOLERANCE = 0.5
SEEDS = tuple(range(42, 52))


def published_means(data: Path) -> dict[tuple[str, str], float]:
    """(workload, published policy name) -> mean GPU allocation in % at load 130."""
    with (data / "openb/published/gpu_allocation_at_load_130.csv").open(newline="") as file:
        return {
            (row["workload"].removeprefix("openb_pod_list_"), row["policy"]): float(row["mean"])
            for row in csv.DictReader(file)
        }


def workloads_at_hand(data: Path) -> list[str]:
    """The workloads whose pods are in the data folder."""
    return sorted(
        path.stem.removeprefix("openb_pod_list_") for path in (data / "openb").glob("openb_pod_list_*.csv")
    )


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """All workloads, policies and seeds, on all cores."""
    data = real_data("openb")
    return compare(
        CompareRequest(
            scenarios=tuple(parse_scenario(f"openb/{name}", data) for name in workloads_at_hand(data)),
            policies=tuple(PUBLISHED),
            seeds=SEEDS,
        )
    )


@pytest.mark.golden
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("policy", PUBLISHED)
def test_mean_allocation_is_the_published_one(comparison: Comparison, policy: str) -> None:
    published = published_means(real_data("openb"))
    rows = [r for r in comparison.rows if r.policy == policy and r.measure == "gpu_allocation_peak"]
    assert len(rows) >= 6
    off = {}
    for row in rows:
        workload = row.scenario.removeprefix("openb/")
        off[workload] = row.estimate.mean - published[workload, PUBLISHED[policy]]
        assert row.estimate.n == len(SEEDS)
    assert all(abs(difference) <= TOLERANCE for difference in off.values()), off
