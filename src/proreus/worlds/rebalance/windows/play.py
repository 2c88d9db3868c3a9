"""Runs of one policy over windows of requests, rules and scorers inside one kernel."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from proreus.contract.heat import HeatMap, heat_map
from proreus.contract.replay import Levels, Move, Replay, Stage, levels_of, replay_of
from proreus.contract.world import Recording
from proreus.kernels.arrays import F64
from proreus.kernels.compiled import compiled
from proreus.worlds.rebalance.windows.model import WINDOW
from proreus.worlds.rebalance.windows.policies.columns import MoveRule
from proreus.worlds.rebalance.windows.policies.policy import MovePolicy
from proreus.worlds.rebalance.windows.policies.rules import choose_move
from proreus.worlds.rebalance.windows.simulation.columns import (
    END,
    HIT,
    MOVES,
    NOW,
    OUTCOMES,
    OVER_REQUESTS,
    REQUESTS,
    Run,
    Stream,
)
from proreus.worlds.rebalance.windows.simulation.kernel import close_window, migrate
from proreus.worlds.rebalance.windows.simulation.world import DeployWorld
from proreus.worlds.rebalance.windows.state import LAST


@compiled
def play_windows(stream: Stream, run: Run, rule: MoveRule, outcomes: F64, use: F64) -> None:
    """Every window from now to the end; outcomes [windows, OUTCOMES], use [windows, N] of what was asked."""
    hosting = run.hosting
    nodes, stop = hosting.pods.size, hosting.where.size * hosting.pods.size
    place = 0
    while run.clock[NOW] < run.clock[END]:
        action = choose_move(hosting, rule)
        while action != stop:
            migrate(run, action // nodes, action % nodes)
            action = choose_move(hosting, rule)
        close_window(stream, run)
        outcomes[place] = run.outcome
        for node in range(nodes):
            # The last window is now the forecast by that name.
            cpu = hosting.load[0, node, 0] / hosting.capacity[node, 0]
            use[place, node] = max(cpu, hosting.load[0, node, 1] / hosting.capacity[node, 1])
        place += 1


def play_part(world: DeployWorld, policy: MovePolicy, part: tuple[int, int]) -> tuple[F64, F64, float]:
    """([windows, OUTCOMES], [windows, nodes] share of each that was asked for, seconds) of a run."""
    first, last = part
    outcomes, use = np.zeros((last - first, OUTCOMES)), np.zeros((last - first, world.hosting.pods.size))
    # A window ahead loads the kernel's machine code, so that the time is that of the run alone.
    world.begin(first, first + 1)
    play_windows(world.stream, world.run, policy.new_rule(), outcomes, use)
    world.begin(first, last)
    began = time.perf_counter()
    play_windows(world.stream, world.run, policy.new_rule(), outcomes, use)
    return outcomes, use, time.perf_counter() - began


def play_by_windows(
    world: DeployWorld, policy: MovePolicy, part: tuple[int, int]
) -> Iterator[list[tuple[int, int, int]]]:
    """The same run window by window: the moves of each, (pod, from node, to node), once it is served."""
    world.begin(*part)
    rule, hosting = policy.new_rule(), world.hosting
    nodes, stop = hosting.pods.size, hosting.where.size * hosting.pods.size
    while not world.over:
        moves = []
        while (action := int(choose_move(hosting, rule))) != stop:
            pod, node = divmod(action, nodes)
            moves.append((pod, int(hosting.where[pod]), node))
            world.move(pod, node)
        world.stop()
        yield moves


def replayed(world: DeployWorld, policy: MovePolicy, part: tuple[int, int]) -> Replay:
    """The run as frames."""
    names = world.windows.deployment
    world.begin(*part)
    states, moves = [_levels(world)], [list[Move]()]
    for found in play_by_windows(world, policy, part):
        states.append(_levels(world))
        moves.append([Move(names.pod_names[pod], source, target) for pod, source, target in found])

    def tell(before: int, at: int) -> str:
        first, last = part[0] + before, part[0] + at - 1
        if at == 0:
            return f"before window {part[0]:,}"
        return f"window {last:,}" if first == last else f"windows {first:,} to {last:,}"

    stage = Stage(
        "node",
        names.node_names,
        ("CPU asked for", "memory asked for"),
        limit=world.options.threshold,
        idle="no pod moved",
    )
    return replay_of(stage, states, moves, tell)


def _levels(world: DeployWorld) -> Levels:
    """One compartment a node: what was asked for in the last window."""
    return levels_of(world.hosting.load[LAST] / world.hosting.capacity)[:, None, :]


def pictured(outcomes: F64, use: F64) -> tuple[Recording, HeatMap]:
    """A run for plots."""
    times = np.arange(1.0, len(outcomes) + 1.0) * WINDOW
    requests = np.maximum(outcomes[:, REQUESTS], 1.0)
    series = {
        "violations": 100.0 * outcomes[:, OVER_REQUESTS] / requests,
        "hit": 100.0 * outcomes[:, HIT] / requests,
        "migrations": np.cumsum(outcomes[:, MOVES]),
        "fullest": 100.0 * use.max(axis=1),
    }
    return Recording(times, series), heat_map(use.astype(np.float32), times)
