"""Replays agree with the runs they show, in every world that has them, and stay small."""

from __future__ import annotations

import base64
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from proreus.compare.report.player import player, player_data
from proreus.contract.play import recorded
from proreus.contract.replay import (
    ABSENT,
    FULL,
    MOST_BOXES,
    MOST_BYTES,
    MOST_FRAMES,
    OUTSIDE,
    Levels,
    Move,
    Replay,
    Stage,
    changes,
    levels_of,
    replay_of,
)
from proreus.contract.world import Picture
from proreus.worlds.rebalance.snapshots.play import play as play_snapshot
from proreus.worlds.rebalance.snapshots.policies.catalogue import make_snapshot_policy
from proreus.worlds.rebalance.snapshots.scenarios import SnapshotScenario
from proreus.worlds.rebalance.snapshots.simulation.world import SnapshotOptions
from proreus.worlds.rebalance.windows.datasets.generator import WindowsConfig
from proreus.worlds.rebalance.windows.play import play_part
from proreus.worlds.rebalance.windows.policies.catalogue import make_move_policy
from proreus.worlds.rebalance.windows.policies.policy import MovePolicy
from proreus.worlds.rebalance.windows.scenarios import WindowScenario
from proreus.worlds.rebalance.windows.simulation.columns import MOVES
from proreus.worlds.rebalance.windows.simulation.run import WindowSimulation
from proreus.worlds.vms.model import ServerShape
from proreus.worlds.vms.play import play as play_vms
from proreus.worlds.vms.play import play_runs
from proreus.worlds.vms.policies.catalogue import make_vm_policy
from proreus.worlds.vms.policies.policy import VmPolicy
from proreus.worlds.vms.scenarios import VmScenario, parse_vm_scenario
from proreus.worlds.vms.simulation.runs import VmRuns

ROUNDING = 0.5 / FULL + 1e-9


def decoded(encoded: list[bytes], shape: tuple[int, ...]) -> Levels:
    """As the report's script does it."""
    cells, frames = np.zeros(int(np.prod(shape[1:])), dtype=np.uint8), []
    for frame in encoded:
        at = -1
        for skip, level in zip(frame[::2], frame[1::2], strict=True):
            at += skip + 1
            cells[at] = level
        frames.append(cells.copy())
    return np.array(frames).reshape(shape)


def stage(boxes: int, **changed: Any) -> Stage:
    return replace(Stage("node", tuple(f"n{box}" for box in range(boxes)), ("CPU", "memory")), **changed)


def moment_name(before: int, at: int) -> str:
    return f"{before}-{at}"


def named(replay: Replay) -> list[tuple[str, str, str]]:
    """Every move, by names."""
    boxes = (*replay.stage.boxes, "outside")
    return [(move.item, boxes[move.source], boxes[move.target]) for frame in replay.moves for move in frame]


@given(arrays.arrays(np.uint8, st.tuples(*(st.integers(1, most) for most in (4, 300, 2, 3)))), st.data())
def test_changes_hold_every_frame(levels: Levels, data: st.DataObject) -> None:
    # Some frames that are much like those before them, as in a run.
    for frame in range(1, len(levels)):
        if data.draw(st.booleans()):
            levels[frame] = levels[frame - 1]
            levels[frame, data.draw(st.integers(0, levels.shape[1] - 1))] = data.draw(st.integers(0, 255))
    assert (decoded(changes(levels), levels.shape) == levels).all()


@settings(max_examples=30)
@given(
    st.sampled_from([1, 2, MOST_FRAMES, MOST_FRAMES + 1, MOST_FRAMES + 2, 1_000]),
    st.sampled_from([1, 7, MOST_BOXES, MOST_BOXES + 1, 3 * MOST_BOXES]),
    st.integers(0, 2**32),
)
def test_no_move_is_lost_and_the_last_frame_is_the_end(count: int, boxes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    states = [levels_of(rng.random((boxes, 1, 2))) for _ in range(2)]
    ends = rng.integers(0, boxes, (3 * count, 2)).tolist()
    log = [Move(f"p{place}", source, target) for place, (source, target) in enumerate(ends)]
    moves = [log[3 * state : 3 * state + 3] for state in range(count)]
    shown = [states[state % 2] for state in range(count)]
    replay = replay_of(stage(boxes), shown, moves, moment_name)
    frames, drawn = replay.levels.shape[:2]
    assert frames == len(replay.moments) == len(replay.moves) <= MOST_FRAMES + 1
    assert drawn == min(boxes, MOST_BOXES) and drawn + replay.left_out == boxes
    assert sum(map(len, changes(replay.levels))) <= MOST_BYTES
    assert named(replay) == [(move.item, f"n{move.source}", f"n{move.target}") for move in log]
    kept = [int(name[1:]) for name in replay.stage.boxes[:drawn]]
    assert kept == sorted(kept) and (replay.levels[-1] == shown[-1][kept]).all()
    # The moments tell of all states, none twice.
    pairs = [tuple(map(int, moment.rsplit("-", 1))) for moment in replay.moments]
    assert [before for before, _ in pairs] == [-1, *(at for _, at in pairs[:-1])]
    assert pairs[-1][1] == count - 1


def test_a_frame_may_tell_its_last_move_alone() -> None:
    states = [levels_of(np.zeros((2, 1, 2)))] * 1_000
    moves = [[Move(str(state), OUTSIDE, state % 2)] for state in range(1_000)]
    replay = replay_of(stage(2, all_moves=False), states, moves, moment_name)
    assert [[move.item for move in frame] for frame in replay.moves] == [
        [moment.rsplit("-", 1)[1]] for moment in replay.moments
    ]


def test_levels_have_room_above_full_and_never_say_absent() -> None:
    levels = levels_of(np.array([-0.1, 0.0, 0.5, 1.0, 1.1, 9.0]))
    assert levels.tolist() == [0, 0, FULL // 2, FULL, 220, ABSENT - 1]


def replay_in(picture: Picture | None) -> Replay:
    assert picture is not None and picture.replay is not None
    return picture.replay


def of_vms(name: str, policy: str, **changed: Any) -> tuple[VmRuns, VmPolicy, Replay]:
    scenario: VmScenario = replace(parse_vm_scenario(name, None), starts=2, **changed)
    runs, chosen = scenario.load(3), make_vm_policy(policy, 5)
    return runs, chosen, replay_in(play_vms(scenario, runs, chosen, 5, picture=True).picture)


@pytest.mark.parametrize("policy", ["first_fit", "random", "learned"])
@pytest.mark.parametrize(("name", "limit"), [("recovering@4", 60), ("waiting@3", 700), ("recovering@20", 0)])
def test_servers_end_as_full_as_the_run_says(name: str, limit: int, policy: str) -> None:
    runs, chosen, replay = of_vms(name, policy, limit=limit)
    (first, _), _ = play_runs(runs, chosen)
    shares = replay.levels[-1] / FULL
    assert shares[:, :, 0].mean() == pytest.approx(first.cpu_end, abs=ROUNDING)
    assert shares[:, :, 1].mean() == pytest.approx(first.mem_end, abs=ROUNDING)
    assert replay.moments[0].startswith("0 placed")
    assert replay.moments[-1] == f"{first.placed:,} placed"
    assert replay.seconds is not None and replay.seconds[-1] == pytest.approx(first.duration)
    assert not replay.levels[0].any() and 2 <= len(replay.levels) <= 122


def test_only_the_chosen_server_fills_where_nobody_leaves() -> None:
    _, _, replay = of_vms("fading@6", "balance_fit", limit=40)
    assert len(replay.levels) == 41
    for before, after, moves in zip(replay.levels, replay.levels[1:], replay.moves[1:], strict=False):
        (move,) = moves
        changed = np.flatnonzero((before != after).any(axis=(1, 2))).tolist()
        assert changed == [move.target] and move.source == OUTSIDE
        assert (after >= before).all()


def test_servers_that_are_added_are_absent_before() -> None:
    options = replace(
        parse_vm_scenario("expansion@3", None).options, servers=(ServerShape(3),), threshold=0.3
    )
    runs, chosen, replay = of_vms("expansion@3", "first_fit", limit=60, options=options)
    there = (replay.levels != ABSENT).all(axis=(2, 3)).sum(axis=1)
    (first, _), _ = play_runs(runs, chosen)
    assert there[0] == 3 and there[-1] == first.servers > 3 and (np.diff(there) >= 0).all()
    assert replay.moments[-1].endswith(f"{first.servers} servers")


def rule_of(name: str, seed: int) -> MovePolicy:
    policy = make_move_policy(name, seed)
    assert isinstance(policy, MovePolicy)
    return policy


WINDOWS = WindowScenario("small", config=WindowsConfig(nodes=4, pods=12, windows=240))


@pytest.mark.parametrize("policy", ["nothing", "hotspot", "balance", "random", "learned"])
def test_nodes_and_pods_are_those_of_the_windows(policy: str) -> None:
    world, part = WINDOWS.load(2), (180, 240)
    chosen = rule_of(policy, 4)
    outcomes, _ = play_part(world, chosen, part)
    end = world.hosting.where.copy()
    replay = replay_in(recorded(WindowSimulation(world, part), chosen))
    assert replay.levels.shape == (61, 4, 1, 2)
    assert [len(moves) for moves in replay.moves] == [0, *outcomes[:, MOVES].astype(int).tolist()]
    where = dict(
        zip(world.windows.deployment.pod_names, world.windows.deployment.where.tolist(), strict=True)
    )
    use = np.zeros((60, 4))
    for window, moves in enumerate(replay.moves[1:]):
        for move in moves:
            assert where[move.item] == move.source != move.target
            where[move.item] = move.target
        asked = np.zeros((4, 2))
        np.add.at(asked, list(where.values()), world.stream.demand[part[0] + window])
        use[window] = (asked / world.hosting.capacity).max(axis=1)
    assert list(where.values()) == end.tolist()
    highest = np.minimum(use, (ABSENT - 1) / FULL)
    assert replay.levels[1:, :, 0].max(axis=2) / FULL == pytest.approx(highest, abs=ROUNDING)
    assert replay.moments[:2] == ("before window 180", "window 180")
    assert replay.moments[-1] == "window 239"


@pytest.mark.parametrize("policy", ["nothing", "greedy_fragment", "random", "search"])
def test_every_migration_of_the_log_is_in_one_frame(policy: str) -> None:
    scenario = SnapshotScenario("snapshot-small", SnapshotOptions(budget=12))
    snapshot = scenario.load(1)
    played = play_snapshot(scenario, snapshot, make_snapshot_policy(policy, 0), 0, picture=True)
    log: Any = played.outcome.rows
    replay = replay_in(played.picture)
    assert [len(frame) for frame in replay.moves] == [0] + [1] * len(log)
    machines = [(vm, source.partition("/")[0], target.partition("/")[0]) for vm, source, target, _ in log]
    assert named(replay) == machines
    used = 1.0 - snapshot.free / np.maximum(snapshot.total, 1)
    assert (replay.levels[0, :, :, :2] == levels_of(used)).all()
    for before, after, (move,) in zip(replay.levels, replay.levels[1:], replay.moves[1:], strict=False):
        changed = np.flatnonzero((before != after).any(axis=(1, 2))).tolist()
        assert changed == sorted([move.source, move.target])
    rate = played.measures["fragment_rate"]
    assert f"fragment rate {rate:.2f} %" in replay.moments[-1]
    # Fragments are the last gauge, in parts of a piece of 16 cores: they add up to the measure.
    pieces = replay.levels[-1, :, :, 2] / FULL
    moved_free = snapshot.free[:, :, 0].sum()  # a migration frees as much as it takes
    assert 100 * 16 * pieces.sum() / moved_free == pytest.approx(
        rate, abs=100 * 16 * pieces.size * ROUNDING / moved_free
    )


def test_the_numbers_for_the_script_say_the_same() -> None:
    _, _, replay = of_vms("recovering@4", "first_fit", limit=30)
    data: dict[str, Any] = player_data(replay)
    content = base64.b64decode(data["changes"])
    ends = np.cumsum([0, *data["lengths"]]).tolist()
    frames = [content[begin:end] for begin, end in pairwise(ends)]
    shape = (len(data["moments"]), data["drawn"], data["compartments"], len(data["gauges"]))
    assert (decoded(frames, shape) == replay.levels).all()
    items, boxes = data["items"], data["boxes"]
    moved = [(items[i], "outside", boxes[to]) for frame in data["moves"] for i, _, to in frame]
    assert moved == named(replay) and len(moved) == 30


def test_a_scenario_without_replays_has_no_player() -> None:
    assert player("replay-0", {}, ("a",), 0) == ""
