"""Laws of scenarios: their parts never meet, they travel, and a stranger's is as good as ours."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proreus.api import make_scenario
from proreus.contract.scenario import PARTS, SEEDS, Part, seed_of
from proreus.model.errors import UsageError
from proreus.worlds import world
from tests.cli.runner import Proreus, assert_refused
from tests.conformance.cases import BY_THE_CLOCK, CASES, Case, digest, every_case, every_kind, told, work_of
from tests.conformance.strangers import SCENARIO

AHEAD = 1


def stranger(case: Case, folder: Path) -> str:
    """A scenario from outside the package: that of the case, one seed ahead."""
    entry = json.dumps(case.scenario.to_json())
    text = SCENARIO.format(entry=entry, world=case.world.name, ahead=AHEAD)
    (folder / "mine.py").write_text(text)
    return f"{folder / 'mine.py'}:Mine"


@every_case
def test_parts_never_meet(case: Case) -> None:
    works = [digest(case.scenario.of_part(part).load(seed)) for part in PARTS for seed in range(2)]
    assert len(set(works)) == len(works)
    assert digest(case.scenario.of_part("test").load(0)) == digest(work_of(case, 0))


@every_case
def test_parts_never_meet_whatever_seed_is_said(case: Case) -> None:
    """Where a part was drawn with a shifted seed, a large seed of another part was the same work."""
    near = tuple(place * apart for apart in (1_000, 100_000, 1_000_000) for place in (1, 2, 3, 4))
    seeds = (0, *near, 2**31, SEEDS - 1)
    works = {(part, seed): digest(case.scenario.of_part(part).load(seed)) for part in PARTS for seed in seeds}
    assert len(set(works.values())) == len(works)


@given(
    st.sampled_from((1_000, 1_000_000)),
    *(st.tuples(st.sampled_from(PARTS), st.one_of(st.integers(0, SEEDS - 1), st.integers(0, 5_000_000))),)
    * 2,
)
def test_no_two_seeds_draw_the_same(apart: int, one: tuple[Part, int], other: tuple[Part, int]) -> None:
    drawn, elsewhere = seed_of(*one, apart), seed_of(*other, apart)
    assert (drawn == elsewhere) == (one == other)
    assert 0 <= drawn < 2**62


@given(st.sampled_from((1_000, 1_000_000)), st.integers(0, 999))
def test_what_was_trained_judged_and_published_draws_as_it_always_did(apart: int, seed: int) -> None:
    assert [seed_of(part, seed, apart) for part in ("test", "train", "valid")] == [
        seed + place * apart for place in range(3)
    ]
    assert seed_of("train", seed + 3 * apart, apart) == seed + 3 * apart


@every_kind
def test_a_seed_beyond_all_is_refused(case: Case, proreus: Proreus, tmp_path: Path) -> None:
    words = ("simulate", case.world.name, "--scenario", case.file(tmp_path), "--seed", str(SEEDS))
    assert_refused(proreus(*words), 2, f"seed {SEEDS} is not between 0 and {SEEDS - 1}")


@every_case
@pytest.mark.parametrize("part", PARTS)
def test_a_scenario_survives_every_way_it_travels(case: Case, part: str) -> None:
    scenario = case.scenario.of_part(part)  # type: ignore[arg-type]
    written = json.loads(json.dumps(scenario.to_json()))
    for back in (pickle.loads(pickle.dumps(scenario)), world(case.world.name).scenario(written, None)):
        assert back == scenario and back.name == scenario.name
        assert digest(back.load(0)) == digest(scenario.load(0))
        assert told(Case(back).play(case.make(case.main))) == told(Case(scenario).play(case.make(case.main)))


@every_kind
def test_what_is_no_scenario_is_refused(case: Case, proreus: Proreus, tmp_path: Path) -> None:
    for entry in ({}, {"name": "no such thing"}, {**case.scenario.to_json(), "options": {"no": 1}}):
        (tmp_path / "bad.json").write_text(json.dumps(entry))
        if "options" in entry and "options" not in case.scenario.to_json():
            continue
        assert_refused(proreus("simulate", case.world.name, "--scenario", "bad.json"), 2, "bad.json")


@every_kind
def test_a_strangers_scenario_plays(case: Case, proreus: Proreus, tmp_path: Path) -> None:
    # What a policy draws depends on the seed that was asked for: one that draws nothing is compared.
    steady = next(name for name in case.world.policies(case.scenario).main if name != "search")
    words = ("simulate", case.world.name, "--policy", steady, "--json", "found.json", "--log", "log.csv")
    mine = proreus(*words, "--scenario", stranger(case, tmp_path))
    assert mine.code == 0, mine.err
    document, log = json.loads(Path("found.json").read_text()), Path("log.csv").read_text()
    assert document["scenario"] == "mine"
    ours = proreus(*words, "--scenario", case.file(tmp_path), "--seed", str(AHEAD))
    assert ours.code == 0 and log == Path("log.csv").read_text()
    same = json.loads(Path("found.json").read_text())["measures"]
    kept = {name for name in same if name not in BY_THE_CLOCK}
    assert {name: same[name] for name in kept} == {name: document["measures"][name] for name in kept}


def test_a_strangers_scenario_and_world_play_in_worker_processes(proreus: Proreus, tmp_path: Path) -> None:
    """Of the toy: a worker knows the other worlds anyway."""
    (case,) = [case for case in CASES if str(case) == "toy/calm"]
    words = ("--scenario", stranger(case, tmp_path), "--policies", case.main, "--seeds", "2")
    rows = []
    for processes in ("1", "2"):
        ended = proreus("compare", "toy", *words, "--processes", processes, "--out", processes)
        assert ended.code == 0, ended.err
        rows.append((Path(processes) / "per_seed.csv").read_text().splitlines())
    head = rows[0][0].split(",")
    kept = [place for place, name in enumerate(head) if not name.endswith("_per_s")]
    assert len(rows[0]) > 2
    for row, other in zip(*rows, strict=True):
        assert [row.split(",")[place] for place in kept] == [other.split(",")[place] for place in kept]


@every_kind
def test_a_strangers_mistakes_are_told_as_its_own(case: Case, proreus: Proreus, tmp_path: Path) -> None:
    file, simulate = tmp_path / "broken.py", ("simulate", case.world.name, "--scenario")
    file.write_text(
        "class Broken:\n"
        f"    name, world, headings, start = 'broken', {case.world.name!r}, None, None\n"
        "    def load(self, seed):\n"
        "        raise KeyError('no work')\n"
        "class Elsewhere(Broken):\n"
        "    world = 'nowhere'\n"
        "class Nothing:\n"
        "    pass\n"
    )
    if case.world.policies(None).what == "":  # where kinds differ, headings say which one it is
        assert_refused(proreus(*simulate, f"{file}:Broken"), 1, "scenario", "broken.py", "line 4", "no work")
    for name, says in (
        (f"{file}:Elsewhere", "one of the world 'nowhere'"),
        (f"{file}:Nothing", "has no 'name'"),
        (f"{file}:Absent", "there is no 'Absent'"),
        ("absent.py:Mine", "there is no file absent.py"),
    ):
        with pytest.raises(UsageError, match=re.escape(says)):
            make_scenario(case.world.name, name)
