"""Laws of policies: all that ship play, what does not fit is refused, and strangers are as good as ours."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from proreus.model.errors import UsageError
from proreus.policies.checkpoint import CARD
from proreus.worlds import registered, world
from tests.cli.runner import Proreus, assert_refused
from tests.conformance.cases import SHIPPED, Case, every_kind, every_rule, once, told, work_of
from tests.conformance.strangers import STRANGER


def simulate(case: Case, folder: Path, *more: str) -> tuple[str, ...]:
    """The words of a run of the case."""
    return ("simulate", case.world.name, "--scenario", case.file(folder), *more)


@every_rule
def test_fresh_forgets(case: Case, name: str) -> None:
    policy = case.make(name, 5)
    assert policy.name == name
    first, again = (told(case.play(policy.fresh(1), 1)) for _ in range(2))
    assert first == again == told(once(case, name, 1))
    if name == "random":
        others = {
            told(case.world.play(case.scenario, work_of(case), policy, seed).outcome) for seed in range(4)
        }
        assert len(others) > 1, "it draws from the seed of the run"


@every_kind
def test_every_policy_says_what_it_does(case: Case) -> None:
    catalogue = case.world.policies(case.scenario)
    assert [name for name, _ in catalogue.describe()] == list(catalogue.names)
    assert all(what for _, what in catalogue.describe())
    assert set(catalogue.main) <= set(catalogue.names) and catalogue.world == case.world.name


@pytest.mark.parametrize("case", SHIPPED, ids=str)
def test_a_checkpoint_is_played_from_where_it_lies_and_refused_where_it_does_not_fit(
    case: Case, proreus: Proreus, tmp_path: Path
) -> None:
    shipped = case.world.policies(case.scenario).shipped
    assert shipped is not None
    copy = tmp_path / "copy"
    shutil.copytree(shipped, copy / "best")  # as in the folder of a training run
    assert told(case.play(case.make(str(copy)))) == told(case.play(case.make("learned")))
    card = json.loads((copy / "best" / CARD).read_text())
    for field, value in (("encoding", "of-old-1"), ("kind", "unheard-of"), ("world", "elsewhere")):
        (copy / "best" / CARD).write_text(json.dumps({**card, field: value}))
        assert_refused(proreus(*simulate(case, tmp_path, "--policy", str(copy))), 2, CARD, field, value)
    weights = copy / "best" / "weights.safetensors"
    (copy / "best" / CARD).write_text(json.dumps(card))
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert_refused(proreus(*simulate(case, tmp_path, "--policy", str(copy))), 2, "weights.safetensors")


@every_kind
def test_a_checkpoint_of_another_world_is_refused(case: Case, proreus: Proreus, tmp_path: Path) -> None:
    others = [name for name in registered() if name != case.world.name]
    shipped = [path for name in others if (path := world(name).policies(None).shipped) is not None]
    assert shipped
    for folder in shipped:
        assert_refused(
            proreus(*simulate(case, tmp_path, "--policy", str(folder))), 2, "world", case.world.name
        )


@every_kind
def test_a_strangers_policy_plays_however_it_is_named(case: Case, mine: Path, offered: str) -> None:
    names = [f"{mine}:{made}" for made in ("First", "Seeded", "make", "ready")]
    logs = {told(case.play(case.make(name))) for name in (*names, f"{mine.stem}:First", offered)}
    assert len(logs) == 1


@every_kind
def test_a_strangers_policy_is_asked_for_reasons_where_it_has_some(
    case: Case, mine: Path, proreus: Proreus, tmp_path: Path
) -> None:
    simulation = case.scenario.start(work_of(case), 0)
    simulation.next_decision()
    asked = ("--explain", simulation.subject())
    told_why = proreus(*simulate(case, tmp_path, "--policy", f"{mine}:Telling"), *asked)
    assert told_why.code == 0, told_why.err
    for part in ("elsewhere", "not the first", "It looks no further.", "took the first"):
        assert part in told_why.out
    silent = proreus(*simulate(case, tmp_path, "--policy", f"{mine}:First"), *asked)
    assert_refused(silent, 2, "--explain", "First", "gives no reasons")
    mumbled = proreus(*simulate(case, tmp_path, "--policy", f"{mine}:Mumbling"), *asked)
    assert_refused(mumbled, 1, "Mumbling", "explain returned str")
    unknown = ("--policy", f"{mine}:Telling", "--explain", "nobody")
    assert_refused(proreus(*simulate(case, tmp_path), *unknown), 2, "nobody")


@every_kind
def test_a_strangers_mistakes_are_told_as_its_own(
    case: Case, mine: Path, proreus: Proreus, tmp_path: Path
) -> None:
    played = ("--scenario", case.file(tmp_path))
    few = ("--seeds", "1", "--processes", "1")
    line = STRANGER.splitlines().index("        return 1 // 0") + 1
    for name, *says in (("Raises", "ZeroDivisionError", f"line {line}"), ("Illegal", "-1")):
        whose = f"{mine}:{name}"
        simulated = proreus("simulate", case.world.name, *played, "--policy", whose)
        compared = proreus("compare", case.world.name, *played, "--policies", whose, *few)
        for ended in (simulated, compared):
            assert_refused(ended, 1, f"policy {whose}", *says)
            assert ended.err.count(whose) == 1, "it is named once"
    speechless = proreus("simulate", case.world.name, *played, "--policy", f"{mine}:Speechless")
    assert_refused(speechless, 2, "Speechless", "`decide`")
    for named, message in (
        (f"{mine}:Absent", "there is no 'Absent'"),
        ("absent.py:First", "there is no file absent.py"),
        ("absent_module:First", "there is no module 'absent_module'"),
        (f"{mine}:no-name", "file.py:Name"),
        ("no_such_rule", "unknown policy 'no_such_rule'"),
    ):
        with pytest.raises(UsageError, match=re.escape(message)):
            case.make(named)
