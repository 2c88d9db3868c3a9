"""Scenarios of one's own: they play as what they lead to, and flags that cannot concern them are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from proreus.compare.comparison import CompareRequest, compare
from proreus.contract.play import step_by_step
from proreus.contract.user_scenarios import OwnScenario, scenario_named
from proreus.contract.world import World
from proreus.model.errors import UsageError
from proreus.worlds import world
from proreus.worlds.pods.scenarios import parse_scenario

OWN = """\
from proreus.worlds.pods.scenarios import parse_scenario
from proreus.worlds.rebalance.snapshots.scenarios import SnapshotOptions, SnapshotScenario
from proreus.worlds.rebalance.windows.scenarios import WindowScenario
from proreus.worlds.rebalance.windows.datasets.generator import WindowsConfig
from proreus.worlds.vms.scenarios import VmScenario

SNAPSHOT = SnapshotScenario("snapshot-small@12", SnapshotOptions(budget=3), machines=12)
WINDOWS = WindowScenario("few", config=WindowsConfig(nodes=3, pods=6, windows=60))
MACHINES = VmScenario("two", starts=2, limit=40)
PODS = parse_scenario("small", None)


class Stranger:
    '''No more than is asked for: it has neither options nor parts.'''

    name, world, headings = "stranger", "pods", PODS.headings

    def load(self, seed):
        return PODS.load(seed)

    def start(self, work, seed):
        return PODS.start(work, seed)
"""
CASES = [
    ("rebalance", "SNAPSHOT", "greedy_fragment"),
    ("rebalance", "WINDOWS", "hotspot"),
    ("vms", "MACHINES", "random"),
    ("pods", "PODS", "kube"),
    ("pods", "Stranger", "kube"),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return path


def named(of_world: World, reference: str) -> OwnScenario:
    scenario = scenario_named(of_world, of_world.flags(), reference)
    assert isinstance(scenario, OwnScenario)
    return scenario


@pytest.mark.parametrize(("of", "name", "policy"), CASES)
def test_it_is_played_with_the_policies_of_its_kind_as_decision_by_decision(
    of: str, name: str, policy: str, file: Path
) -> None:
    scenario = named(world(of), f"{file}:{name}")
    made, work = world(of).policies(scenario).make(policy), scenario.load(4)
    fast = world(of).play(scenario, work, made, 4, picture=True)
    slow = step_by_step(scenario, work, made, 4)
    shared = {key for key in fast.measures if key in slow.measures and not key.endswith("_per_s")}
    assert shared and {key: fast.measures[key] for key in shared} == {
        key: slow.measures[key] for key in shared
    }
    assert repr(list(fast.outcome.rows)) == repr(list(slow.outcome.rows))
    assert fast.picture is not None and fast.picture.replay is not None


def test_a_strangers_scenario_is_compared(file: Path) -> None:
    scenario = named(world("pods"), f"{file}:Stranger")
    comparison = compare(CompareRequest((scenario,), ("kube", "best_fit"), seeds=(0, 1), processes=1))
    assert {result.scenario for result in comparison.results} == {"stranger"}
    plain = compare(CompareRequest((parse_scenario("small", None),), ("kube",), processes=1))
    of_kube = next(result for result in comparison.results if (result.policy, result.seed) == ("kube", 0))
    assert of_kube.measures["jct_mean"] == plain.results[0].measures["jct_mean"]


def test_flags_and_worlds_that_are_not_its_own_are_refused(file: Path, tmp_path: Path) -> None:
    rebalance = world("rebalance")
    entry = named(rebalance, f"{file}:SNAPSHOT").to_json()
    written = tmp_path / "snapshot.json"
    written.write_text(json.dumps(entry))
    assert scenario_named(rebalance, rebalance.flags(), str(written)).name == "snapshot-small@12"
    for given in (str(written), f"{file}:SNAPSHOT"):
        flags = replace(rebalance.flags(), budget=1)  # type: ignore[type-var]
        with pytest.raises(UsageError, match="--budget says nothing about a scenario of your own"):
            scenario_named(rebalance, flags, given)
        with pytest.raises(UsageError, match="one of the world 'rebalance', not of 'vms'"):
            scenario_named(world("vms"), world("vms").flags(), given)
