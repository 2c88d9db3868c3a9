"""Many runs of the world `vms` stepped together: what learners train on, with or without Gymnasium.

One call of `step` takes one action per lane and runs each lane to its next choice; a lane whose run is over
starts the next one by itself. `BatchedVms` shows the world's own arrays: nothing of size N is copied but the
mask. `VmRowLanes` shows the same runs as rows of features (`contract.lanes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from proreus.contract.lanes import Arrays, Choices, Steps
from proreus.kernels.arrays import F32, F64, I32, I64, U8, U64, Bool
from proreus.kernels.jit import compiled
from proreus.kernels.rng import next_below
from proreus.kernels.structs import pack, packable
from proreus.model.errors import IllegalDecision, InputError, UsageError, unknown_name
from proreus.worlds.vms.encoding.rows import VERSION, encode_servers, numa_size
from proreus.worlds.vms.simulation import columns as c
from proreus.worlds.vms.simulation.columns import VmLanes, VmWork
from proreus.worlds.vms.simulation.kernel import at_hand, begin, first_fit_length, put
from proreus.worlds.vms.simulation.world import (
    BEST_FIT_ACTION,
    FIRST_FIT_ACTION,
    SPANE_EXTRA,
    VmsOptions,
    new_lanes,
)
from proreus.worlds.vms.state.observation import demand
from proreus.worlds.vms.state.servers import first_place, tightest_place

TRIES = 1000
LANES_APART = 1_000_003
"""Between the seeds of two batches: no batch has as many lanes."""
NO_CHOICE = "no start of the range leads to a choice: does the cluster fit any machine?"


@dataclass(frozen=True)
class BatchSettings:
    """Where runs start and how long they are."""

    first: int = 0
    """Runs start at machines from this one on ..."""
    last: int = 0
    """... and before this one; 0: the trace's last. They may go on past it: leave room between two ranges
    that must not share a machine, or set `limit`."""
    limit: int = 0
    """Machines of a run; 0: to the end of the trace. Where machines wait: SPANE's length for the start."""
    seed: int = 0
    """Of the starts; every lane draws its own."""


@packable
class Starts(NamedTuple):
    """Where the lanes' runs begin."""

    rng: U64  # [L, 1]
    first: I64  # [2] runs start at a machine from the first on and before the second
    limit: I64  # [1] machines of a run
    length: I32  # [V] SPANE's length of the run from each start, 0: not known yet; empty: `limit` holds


@packable
class Screen(NamedTuple):
    """What the kernel shows of the lanes."""

    asked: F32  # [F, 2, 2, 2] `feat` of each flavour
    feat: F32  # [L, 2, 2, 2]
    avail: U8  # [L, P]
    words: U64  # [L, P / 8] the same bytes, eight at a time
    rewards: F64  # [L]
    ended: Bool  # [L]
    placed: I64  # [L]
    waits: F64  # [L]


class VmSteps(NamedTuple):
    """Every lane at its choice, and what came of the actions that led there.

    All arrays are overwritten by the next step: copy what is to be kept. After an end, what is observed is
    the next run's beginning.
    """

    obs: F32  # [L, N, 2, 2] cores and GB free on each NUMA node
    feat: F32  # [L, 2, 2, 2] demand on each NUMA node, by the NUMA node that is chosen
    avail: Bool  # [L, 2N] legal actions
    rewards: F64  # [L]
    ended: Bool  # [L]
    placed: I64  # [L] machines of the run that ended, 0 elsewhere
    waits: F64  # [L] total waiting time of the run that ended, 0 elsewhere


class BatchedVms:
    """`lanes` runs side by side over one trace."""

    def __init__(self, work: VmWork, options: VmsOptions, lanes: int, settings: BatchSettings) -> None:
        machines = work.flavour.size
        last = settings.last or machines
        if lanes < 1:
            raise UsageError("a batch needs at least one lane")
        if not 0 <= settings.first < last <= machines or settings.limit < 0:
            raise UsageError(f"starts {settings.first} to {last}: the trace has {machines} machines")
        self.work, self.options, self.settings = work, options, settings
        spane = options.full == "wait" and not settings.limit
        self.server_count = options.server_count
        self.lanes = new_lanes(work, options, lanes, settings.limit or machines - settings.first)
        words = np.zeros((lanes, self.lanes.servers.words.shape[2]), dtype=np.uint64)
        self._screen = Screen(
            asked=np.stack([demand(work.flavours, kind) for kind in range(work.flavours.double.size)]),
            feat=np.zeros((lanes, 2, 2, 2), dtype=np.float32),
            avail=words.view(np.uint8),
            words=words,
            rewards=np.zeros(lanes),
            ended=np.zeros(lanes, dtype=np.bool_),
            placed=np.zeros(lanes, dtype=np.int64),
            waits=np.zeros(lanes),
        )
        self._handle = pack(self._screen)
        self._starts = pack(
            Starts(
                rng=np.zeros((lanes, 1), dtype=np.uint64),
                first=np.array([settings.first, last], dtype=np.int64),
                limit=np.array([settings.limit or machines], dtype=np.int64),
                length=np.zeros(machines if spane else 0, dtype=np.int32),
            )
        )
        self.reseed(settings.seed)
        screen = self._screen
        self._steps = VmSteps(
            obs=self.lanes.servers.shown,
            feat=screen.feat,
            avail=screen.avail[:, : 2 * self.server_count].view(np.bool_),
            rewards=screen.rewards,
            ended=screen.ended,
            placed=screen.placed,
            waits=screen.waits,
        )

    def __len__(self) -> int:
        return self._screen.rewards.size

    def get_attr(self, name: str) -> F32 | Bool:
        """`obs`, `req` (also `feat`) or `avail` of every lane, under VMAgent's names."""
        known: dict[str, F32 | Bool] = {
            "obs": self._steps.obs,
            "req": self._steps.feat,
            "feat": self._steps.feat,
            "avail": self._steps.avail,
        }
        if name not in known:
            raise unknown_name("attribute", name, known)
        return known[name]

    def reseed(self, seed: int) -> None:
        """Draw the starts from now on as a new batch of that seed would."""
        lanes = np.arange(len(self))
        self._starts.rng[:, 0] = (lanes + seed * LANES_APART).astype(np.uint64)

    def reset_some(self, seeds: Mapping[int, int]) -> VmSteps:
        """Some lanes at the first choice of a new run, each as the first lane of a batch of its seed."""
        for lane, seed in seeds.items():
            self._starts.rng[lane, 0] = np.uint64(seed * LANES_APART)
            if not start_one(self.work, self.lanes, self._starts, self._handle, lane):
                raise UsageError(NO_CHOICE)
        return self._steps

    def reset(self) -> VmSteps:
        """Every lane at the first choice of a new run."""
        lost = start_all(self.work, self.lanes, self._starts, self._handle)
        if lost >= 0:
            raise UsageError(NO_CHOICE)
        return self._steps

    def step(self, actions: I64) -> VmSteps:
        """Carry out one action per lane: server * 2 + NUMA node, -1 for first fit, -2 for best fit."""
        chosen = np.ascontiguousarray(actions, dtype=np.int64)
        if chosen.shape != (len(self),):
            raise UsageError(f"{chosen.shape} actions for {len(self)} lanes")
        refused = step_all(self.work, self.lanes, self._starts, self._handle, chosen)
        if refused >= 0:
            raise IllegalDecision(f"lane {refused}: the machine does not fit at place {chosen[refused]}")
        return self._steps

    def capture(self) -> Arrays:
        """All that it takes to go on later as if nothing had happened, copied."""
        return {name: array.copy() for name, array in self._changing().items()}

    def restore(self, saved: Mapping[str, Any]) -> VmSteps:
        """Take up what `capture` of an equal batch returned."""
        for name, array in self._changing().items():
            if name not in saved or saved[name].shape != array.shape:
                raise InputError(f"the saved runs of virtual machines do not fit: {name}")
            array[...] = saved[name]
        return self._steps

    def _changing(self) -> Arrays:
        """What steps change; bytes that can be read as words are named once."""
        lanes, servers = self.lanes, self.lanes.servers
        return {
            "free": servers.free,
            "shown": servers.shown,
            "fits": servers.words,
            "room": servers.room,
            "before": servers.before_words,
            "where": lanes.where,
            "leaving": lanes.leaving,
            "leaver": lanes.leaver,
            "tally": lanes.tally,
            "figure": lanes.figure,
            "rng": self._starts.rng,
            "asked": self._screen.feat,
            "avail": self._screen.words,
        }


class VmRowLanes:
    """Runs of the world `vms`, all servers alike, as rows of features.

    With an `ending_cost`, the end of a run for want of room costs that much and nothing else counts. Where
    every placement is worth one, discounted returns of the two are the same line seen from either end, and
    rank policies alike. But then nearly all of a value is the constant 1 / (1 - discount), which networks
    take long to learn and in whose errors the differences between places drown.
    """

    encoding = VERSION

    def __init__(self, batch: BatchedVms, ending_cost: float = 0.0) -> None:
        self.batch = batch
        self.ending_cost = ending_cost
        self._size = numa_size(batch.options.servers)

    def __len__(self) -> int:
        return len(self.batch)

    def reset(self, seed: int) -> Choices:
        """Runs whose starts the seed determines."""
        self.batch.reseed(seed)
        return self._choices(self.batch.reset())

    def reset_some(self, seeds: Mapping[int, int]) -> Choices:
        """Some of the runs begin anew, each at starts that its seed determines."""
        return self._choices(self.batch.reset_some(seeds))

    def step(self, chosen: I64) -> Steps:
        """One choice of every run."""
        steps = self.batch.step(chosen)
        rewards = own = steps.rewards.copy()
        if self.ending_cost > 0.0:
            # Whoever has placed as many machines as a run has at most did not end for want of room.
            full = steps.ended & (steps.placed != self.batch.settings.limit)
            rewards = -self.ending_cost * full.astype(np.float64)
        return Steps(self._choices(steps), rewards, steps.ended.copy(), own)

    def capture(self) -> Arrays:
        """The runs as they stand."""
        return self.batch.capture()

    def restore(self, saved: Mapping[str, Any]) -> Choices:
        """Go on with captured runs."""
        return self._choices(self.batch.restore(saved))

    def _choices(self, steps: VmSteps) -> Choices:
        """Copied: the batch overwrites its arrays with the next step."""
        return encode_servers(steps.obs, steps.feat, steps.avail.copy(), self._size)


@compiled
def start_all(work: VmWork, lanes: VmLanes, starts: Starts, screen: Screen) -> int:
    """Begin a run in every lane; the first lane for which none of many starts leads to a choice, or -1."""
    for lane in range(screen.rewards.size):
        if not start_one(work, lanes, starts, screen, lane):
            return lane
    return -1


@compiled
def start_one(work: VmWork, lanes: VmLanes, starts: Starts, screen: Screen, lane: int) -> bool:
    """Begin a run in one lane; false where none of many starts leads to a choice."""
    if not _start(work, lanes, starts, lane):
        return False
    _show(work, lanes, lane, screen)
    _report(lanes, lane, screen, 0.0)
    return True


@compiled
def step_all(work: VmWork, lanes: VmLanes, starts: Starts, screen: Screen, actions: I64) -> int:
    """Step every lane; the first lane whose action is not legal, before anything is done, or -1."""
    refused = _first_illegal(lanes, screen, actions)
    if refused >= 0:
        return refused
    for lane in range(actions.size):
        place = actions[lane]
        if place == FIRST_FIT_ACTION:
            place = first_place(lanes.servers, lane, at_hand(work, lanes, lane))
        elif place == BEST_FIT_ACTION:
            place = tightest_place(lanes.servers, work.flavours, lane, at_hand(work, lanes, lane))
        _report(lanes, lane, screen, put(work, lanes, lane, place))
        if lanes.tally[lane, c.STATUS] != c.DECIDING and not _start(work, lanes, starts, lane):
            return lane
        _show(work, lanes, lane, screen)
    return -1


@compiled
def _first_illegal(lanes: VmLanes, screen: Screen, actions: I64) -> int:
    avail, places = screen.avail, 2 * lanes.servers.capacity.shape[0]
    for lane in range(actions.size):
        place = actions[lane]
        if place < BEST_FIT_ACTION or place >= places or (place >= 0 and not avail[lane, place]):
            return lane
    return -1


@compiled
def _start(work: VmWork, lanes: VmLanes, starts: Starts, lane: int) -> bool:
    """Begin a run at a start drawn from the range; false where none of many leads to a choice."""
    for _ in range(TRIES):
        machine = _draw(starts, lane)
        limit = starts.limit[0]
        if starts.length.size:
            if starts.length[machine] == 0:
                starts.length[machine] = first_fit_length(work, lanes, lane, machine) + SPANE_EXTRA
            limit = starts.length[machine]
        begin(work, lanes, lane, machine, limit)
        if lanes.tally[lane, c.STATUS] == c.DECIDING:
            return True
    return False


@compiled
def _draw(starts: Starts, lane: int) -> int:
    return starts.first[0] + next_below(starts.rng[lane], starts.first[1] - starts.first[0])


@compiled
def _show(work: VmWork, lanes: VmLanes, lane: int, screen: Screen) -> None:
    """The request at hand and where it may go."""
    flavour = work.flavour[lanes.tally[lane, c.MACHINE]]
    asked, feat, words, fits = screen.asked, screen.feat, screen.words, lanes.servers.words
    for chosen in range(2):
        for numa in range(2):
            for kind in range(2):
                feat[lane, chosen, numa, kind] = asked[flavour, chosen, numa, kind]
    for word in range(words.shape[1]):
        words[lane, word] = fits[lane, flavour, word]


@compiled
def _report(lanes: VmLanes, lane: int, screen: Screen, reward: float) -> None:
    """What came of the action, and of the run where it is over."""
    over = lanes.tally[lane, c.STATUS] != c.DECIDING
    screen.rewards[lane] = reward
    screen.ended[lane] = over
    screen.placed[lane] = lanes.tally[lane, c.PLACED] if over else 0
    screen.waits[lane] = lanes.figure[lane, c.WAIT] if over else 0.0
