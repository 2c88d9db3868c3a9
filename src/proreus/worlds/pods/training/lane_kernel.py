"""One copy of the pods world that starts over by itself: the unit of batched training.

A lane stands at a decision that is a real choice; where no node can take a pod, or only one action is
allowed, it decides by itself. `step` carries out an action and runs on to the next choice, through the
end of the episode and the start of the next one if need be. All of it is Numba: `batched_lanes` steps
many of them, `rollout` calls `step` from inside its own kernel.
"""

from __future__ import annotations

from typing import NamedTuple

from proreus.kernels.arrays import F32, F64, I64, U64
from proreus.kernels.jit import compiled
from proreus.kernels.structs import packable
from proreus.worlds.pods.encoding.rows import Encoder, list_choice, row_devices
from proreus.worlds.pods.policies.scorer import MAY_DELAY, MAY_REJECT
from proreus.worlds.pods.simulation.columns import Run
from proreus.worlds.pods.simulation.kernel import APPLIED, FINISHED, advance, apply, waiting
from proreus.worlds.pods.simulation.reset import clear_run, clear_state, redraw
from proreus.worlds.pods.state.columns import Cluster, Scratch, State

# Places in `PodLane.rules`.
HEADS, REDRAW, COMPLETION, BY_CPU = range(4)
# Places in `PodLane.now`: the pod that waits for a decision (-1 before the first), rows, whether they
# preempt, decisions of this episode; episodes ended and decisions made in them since someone last asked.
POD, ROWS, PREEMPTS, LENGTH, ENDED, ENDED_LENGTH = range(6)
# Places in `PodLane.sums`: reward since the last choice, return of this episode, of the episodes ended.
REWARD, RETURN, ENDED_RETURN = range(3)

# Episodes in a row without a single choice, after which nothing can be learned.
_MOST_EMPTY = 100


@packable
class PodLane(NamedTuple):
    """One world with its encoder, its random generator and its accounts. B pods in the base workload."""

    cluster: Cluster  # its own: `pod_class` is drawn anew for every episode
    state: State
    run: Run
    scratch: Scratch
    encoder: Encoder
    base_class: I64  # [B]
    base_work: F64  # [B]
    base_gap: F64  # [B - 1], or [1] where there is one pod
    scale: F64  # [1] what a reward of 1 stands for
    rng: U64  # [1]
    rules: I64  # [3]
    now: I64  # [6]
    sums: F64  # [3]
    nodes: I64  # [N] the node of each row
    context: F32  # [G]


@compiled
def start(lane: PodLane) -> None:
    """Bring a new lane to its first choice; a lane that stands at one looks at it again."""
    if lane.now[POD] == FINISHED:
        _new_episode(lane)
        _to_choice(lane)
    else:
        _observe(lane)


@compiled
def step(lane: PodLane, action: int) -> tuple[float, bool]:
    """(reward, whether the episode ended): carry out the flat action, run on to the next choice.

    Raises ValueError where the action is not legal; the lane still stands at the same choice then.
    """
    if not _allowed(lane, action) or not _act(lane, lane.now[POD], action):
        raise ValueError("illegal action")
    lane.now[LENGTH] += 1
    ended = _to_choice(lane)
    reward = lane.sums[REWARD]
    lane.sums[REWARD] = 0.0
    return reward, ended


@compiled
def flat_action(lane: PodLane, place: int) -> int:
    """The flat action behind a place in the list of rows, delay, reject."""
    nodes = lane.nodes.shape[0]
    if place >= lane.now[ROWS]:
        return 2 * nodes + place - lane.now[ROWS]
    return lane.nodes[place] + (nodes if lane.now[PREEMPTS] else 0)


@compiled
def _allowed(lane: PodLane, action: int) -> bool:
    """Whether the lane lets policies choose such an action; whether it is legal, the world knows."""
    nodes = lane.nodes.shape[0]
    if action < 2 * nodes:
        return (action >= nodes) == (lane.now[PREEMPTS] > 0)
    head = MAY_DELAY if action == 2 * nodes else MAY_REJECT
    return (lane.rules[HEADS] & head) > 0


@compiled
def _new_episode(lane: PodLane) -> None:
    if lane.rules[REDRAW]:
        redraw(lane.cluster.pod_class, lane.run, lane.base_class, lane.base_work, lane.base_gap, lane.rng)
    clear_state(lane.cluster, lane.state)
    clear_run(lane.state, lane.run)
    lane.encoder.seen[:] = -1
    lane.now[LENGTH] = 0
    lane.sums[RETURN] = 0.0


@compiled
def _to_choice(lane: PodLane) -> bool:
    """Run to the next real choice; whether an episode ended on the way."""
    ended = False
    empty = 0
    while True:
        before = lane.run.presence[0]
        pod = advance(lane.cluster, lane.state, lane.run)
        if lane.rules[COMPLETION]:
            _earn(lane, -(lane.run.presence[0] - before) / lane.scale[0], ended)
        if pod == FINISHED:
            # What happens before the first choice of the next episode is nobody's merit.
            if not ended:
                lane.now[ENDED] += 1
                lane.now[ENDED_LENGTH] += lane.now[LENGTH]
                lane.sums[ENDED_RETURN] += lane.sums[RETURN]
            ended = True
            empty += 1
            if empty > _MOST_EMPTY:
                raise ValueError("no episode leaves anything to choose")
            _new_episode(lane)
            continue
        lane.now[POD] = pod
        _observe(lane)
        heads = lane.rules[HEADS]
        choices = lane.now[ROWS] + (heads & MAY_DELAY) // MAY_DELAY + (heads & MAY_REJECT) // MAY_REJECT
        if lane.now[ROWS] > 0 and choices > 1:
            return ended
        _act(lane, pod, flat_action(lane, 0), ended)


@compiled
def _observe(lane: PodLane) -> None:
    """List what can be done with the pod at hand."""
    pod = (lane.cluster.pod_class[lane.now[POD]], waiting(lane.run))
    into = (lane.nodes, lane.context)
    rows, preempts = list_choice(lane.cluster, lane.state, lane.scratch, lane.encoder, pod, into)
    lane.now[ROWS] = rows
    lane.now[PREEMPTS] = preempts


@compiled
def _act(lane: PodLane, pod: int, action: int, unearned: bool = False) -> bool:
    nodes = lane.nodes.shape[0]
    devices = 0
    if 0 <= action < nodes:
        devices = row_devices(lane.encoder, lane.cluster.pod_class[pod], action)
    measured = _allocated(lane)
    before = lane.run.used[measured]
    if apply(lane.cluster, lane.state, lane.run, lane.scratch, pod, (action, devices)) != APPLIED:
        return False
    if not lane.rules[COMPLETION]:
        _earn(lane, (lane.run.used[measured] - before) / lane.scale[0], unearned)
    return True


@compiled
def _allocated(lane: PodLane) -> int:
    """The place in `Run.used` of what allocation is measured by: milli-GPU, or CPU if none is asked for."""
    return 0 if lane.rules[BY_CPU] else lane.run.used.shape[0] - 2


@compiled
def _earn(lane: PodLane, reward: float, unearned: bool) -> None:
    if not unearned:
        lane.sums[REWARD] += reward
        lane.sums[RETURN] += reward
