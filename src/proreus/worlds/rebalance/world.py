"""The world of rebalancing as one value: windows of requests, and snapshots of virtual machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from proreus.contract.scenario import Scenario
from proreus.contract.user_scenarios import playing
from proreus.contract.world import Quantity, Words, World
from proreus.model.errors import UsageError
from proreus.policies.catalogue import Catalogue
from proreus.worlds.rebalance.flags import RebalanceFlags
from proreus.worlds.rebalance.snapshots.datasets.catalogue import DATASETS as SNAPSHOT_DATASETS
from proreus.worlds.rebalance.snapshots.play import play as play_snapshot
from proreus.worlds.rebalance.snapshots.play import warm_up_policy
from proreus.worlds.rebalance.snapshots.policies.catalogue import SNAPSHOT_POLICIES
from proreus.worlds.rebalance.snapshots.scenarios import (
    SnapshotScenario,
    is_snapshot,
    snapshot_scenario_from_json,
)
from proreus.worlds.rebalance.snapshots.simulation.world import MEASURES as OF_SNAPSHOTS
from proreus.worlds.rebalance.windows.datasets.catalogue import DATASETS as WINDOW_DATASETS
from proreus.worlds.rebalance.windows.datasets.generator import WindowsConfig
from proreus.worlds.rebalance.windows.play import play as play_windows
from proreus.worlds.rebalance.windows.policies.catalogue import MOVE_POLICIES, make_move_policy
from proreus.worlds.rebalance.windows.scenarios import WindowScenario, window_scenario_from_json
from proreus.worlds.rebalance.windows.simulation.outcome import MEASURES as OF_WINDOWS


def _policies(scenario: Scenario | None) -> Catalogue:
    """Windows and snapshots have policies of their own; each catalogue knows whose the others are."""
    own, other = MOVE_POLICIES, SNAPSHOT_POLICIES
    # Not by its class: a scenario of one's own may be of either kind, and what decides says of which.
    if scenario is not None and scenario.headings.deciding[0] in OF_SNAPSHOTS:
        own, other = other, own
    return replace(own, elsewhere={name: other.what for name in other.names if name not in own.names})


def _scenario(entry: Mapping[str, Any], data: Path | None) -> WindowScenario | SnapshotScenario:
    try:
        name = str(entry["name"])
        snapshot = is_snapshot(name) or "snapshot" in entry
        read = snapshot_scenario_from_json if snapshot else window_scenario_from_json
        return read(entry, data)
    except (KeyError, TypeError, UsageError) as error:
        raise ValueError(f"not a scenario: {error}") from error


def _warm_up() -> None:
    """Compile what the runs need, or load it from the cache."""
    scenario = WindowScenario("warm-up", config=WindowsConfig(nodes=2, pods=3, windows=8))
    play_windows(scenario, scenario.load(0), make_move_policy("hotspot"), 0)
    for policy in ("greedy_fragment", "search"):
        warm_up_policy(policy)


WORLD = World(
    name="rebalance",
    what="migrations: of pods between five-minute windows, of virtual machines in a snapshot",
    flags=RebalanceFlags,
    scenario=_scenario,
    presets=("windows/serial", "windows/parallel", "snapshot-small", "snapshot", "snapshot-large"),
    policies=_policies,
    play=playing(SnapshotScenario, play_snapshot, playing(WindowScenario, play_windows)),
    measures={**OF_WINDOWS, **OF_SNAPSHOTS},
    quantities=(
        Quantity("violations", "Requests above the threshold", "%", "violations"),
        Quantity("hit", "Requests hit by contention", "%", "hit"),
        Quantity("migrations", "Migrations so far", "pods", "migrations"),
        Quantity("fullest", "Fullest node, by what is asked", "%", "fullest"),
        Quantity("fragments", "Fragment rate", "%", "fragments"),
        Quantity("moves", "Migrations so far", "moves", "moves"),
    ),
    words=Words(
        noun="pods",
        place="node",
        does={
            "violations": "serves {} of the requests above the threshold",
            "fragment_rate": "leaves {} of the free cores in fragments",
        },
        caution="A request above the threshold is served; one hit by contention gets less than it asks for.",
    ),
    warm_up=_warm_up,
    datasets={**WINDOW_DATASETS, **SNAPSHOT_DATASETS},
    learners={
        "es": "proreus.worlds.rebalance.windows.training.learners:ES",
        **{
            name: f"proreus.worlds.rebalance.windows.training.torch_learners:{name.upper()}"
            for name in ("qmix", "ppo", "ddqn", "dqn")
        },
    },
    specialist="proreus.worlds.rebalance.windows.training.specialist:SPECIALIST",
    tunes_from="a table of requests (time,pod,cpu,mem), or the folder that `proreus data clean` wrote, on "
    "the nodes of --layout or on --nodes equal ones; or windows by name, as windows/huawei-serial. Of "
    "what was recorded, the first three fifths train and the last quarter judges.",
    trains_on=("windows/serial", "windows/parallel"),
    combine="proreus.worlds.rebalance.windows.training.combine:combine",
    bench="proreus.worlds.rebalance.bench:bench_rebalance",
    examples={
        "simulate": "proreus simulate rebalance --scenario windows/parallel --policy learned "
        "--export pods.json; proreus simulate rebalance --scenario snapshot --policy search "
        "--log moves.csv --watch 4",
        "compare": "proreus compare rebalance --scenarios windows/serial,windows/parallel "
        "--policies hotspot,balance,nothing,learned; proreus compare rebalance --scenario snapshot "
        "--policies hotspot,greedy_fragment,search --seeds 5",
        "tune": "proreus tune rebalance --from requests.csv --nodes 10 --minutes 10",
    },
)
