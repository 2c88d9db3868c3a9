"""What `proreus simulate` finds and writes on small generated work: every figure but rates and seconds."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import Proreus
from tests.surface.pinning import assert_pinned, is_timing, without_timings


@dataclass(frozen=True)
class Simulation:
    """A command, and which files it writes beside its result."""

    name: str
    world: str
    flags: tuple[str, ...]
    writes: tuple[str, ...] = ("--log",)
    file: dict[str, str] = field(default_factory=lambda: {"--log": "log.csv", "--export": "end.json"})

    def words(self) -> tuple[str, ...]:
        """The command line."""
        targets = [word for flag in self.writes for word in (flag, self.file[flag])]
        return ("simulate", self.world, *self.flags, "--json", "result.json", *targets)


def _rules(world: str, name: str, flags: tuple[str, ...], policies: str) -> list[Simulation]:
    """The same work for several policies."""
    writes = ("--log", "--export") if world == "rebalance" else ("--log",)
    return [
        Simulation(f"{name}-{policy}", world, (*flags, "--policy", policy), writes)
        for policy in policies.split()
    ]


SIMULATIONS = (
    *_rules("pods", "small", ("--scenario", "small", "--seed", "3"), "kube best_fit fgd random learned"),
    *_rules("pods", "gpu@8", ("--scenario", "gpu@8", "--seed", "3"), "kube fgd gpu_packing learned"),
    *_rules(
        "vms",
        "recovering@5",
        ("--scenario", "recovering@5", "--starts", "3", "--limit", "3000", "--seed", "2"),
        "first_fit best_fit balance_fit random learned",
    ),
    *_rules("vms", "waiting", ("--scenario", "waiting", "--starts", "2"), "first_fit balance_fit learned"),
    *_rules(
        "vms",
        "expansion@20",
        ("--scenario", "expansion@20", "--starts", "1", "--limit", "6000"),
        "best_fit",
    ),
    *_rules(
        "rebalance",
        "serial",
        ("--scenario", "windows/serial"),
        "hotspot balance nothing learned learned-linear",
    ),
    *_rules(
        "rebalance",
        "parallel",
        ("--scenario", "windows/parallel", "--seed", "1"),
        "hotspot learned learned-linear",
    ),
    *_rules("rebalance", "snapshot-small", ("--scenario", "snapshot-small"), "search"),
    *_rules(
        "rebalance",
        "snapshot-small@40",
        ("--scenario", "snapshot-small@40", "--seed", "3", "--budget", "6"),
        "hotspot greedy_fragment search",
    ),
)


@pytest.mark.parametrize("simulation", SIMULATIONS, ids=lambda each: f"{each.world}-{each.name}")
def test_a_simulation_finds_what_it_found(simulation: Simulation, proreus: Proreus, tmp_path: Path) -> None:
    ended = proreus(*simulation.words())
    assert (ended.code, ended.err) == (0, "")
    outcome: dict[str, Any] = {"result": without_timings(json.loads((tmp_path / "result.json").read_text()))}
    for flag in simulation.writes:
        outcome[flag] = _kept(tmp_path / simulation.file[flag])
    assert_pinned(f"simulate/{simulation.world}-{simulation.name}", outcome)


def _kept(path: Path) -> Any:
    """Of a table its header, length and a digest of its cells; of JSON what is in it, or its digest."""
    if path.suffix == ".csv":
        return table(path.read_text())
    text = json.dumps(json.loads(path.read_text()), sort_keys=True)
    return json.loads(text) if len(text) < 4000 else {"sha256": _digest(text), "characters": len(text)}


def table(text: str) -> dict[str, Any]:
    """A table without its columns of times that were measured, its numbers to ten digits."""
    header, *rows = csv.reader(io.StringIO(text))
    kept = [index for index, name in enumerate(header) if not is_timing(name)]
    lines = [",".join(_cell(row[index]) for index in kept) for row in rows]
    return {"header": header, "rows": len(rows), "first": lines[:3], "sha256": _digest("\n".join(lines))}


def _cell(text: str) -> str:
    try:
        return f"{float(text):.10g}"
    except ValueError:
        return text


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
