"""A whole population at once: every run of every member is a lane, or waits for one.

Lanes that are through take the next run of the list, so that nobody waits for the longest. The host asks once
in a while whether all is played. M members, S starts of each, J = M S runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from proreus.kernels.arrays import F64, I64
from proreus.learning.tensor_lanes.cuda_graphs import replayed
from proreus.learning.tensor_lanes.shown_lanes import HOLD
from proreus.policies.networks.torch_threads import few_torch_threads
from proreus.worlds.vms.encoding.place import FEATURES
from proreus.worlds.vms.simulation.runs import VmRuns
from proreus.worlds.vms.training.device.columns import DECIDE, IDLE, NEW_RUN, new_state
from proreus.worlds.vms.training.device.scores import highest_scores
from proreus.worlds.vms.training.device.step import move
from proreus.worlds.vms.training.device.tables import VmTables, listed_starts, server_tables, trace_tables
from proreus.worlds.vms.training.training_trace import TrainingTrace

_MOST_LANES = 16_384
_MOST_BYTES = 2 << 30
"""Of places that machines of runs have."""
_STRETCH = 64
"""Steps between two questions."""

Planned = Sequence[tuple[TrainingTrace, VmRuns]]


class VmPopulation:
    """Plays members on runs over the same traces and servers, time and again."""

    def __init__(self, planned: Planned, members: int, device: str) -> None:
        """planned: as the first runs are; later ones may start elsewhere and have other lengths."""
        self._device = torch.device(device)
        works, options = [runs.work for _, runs in planned], planned[0][1].options
        traces, flavours = trace_tables(works, self._device)
        # SPANE's lengths are others with every start, but need no room.
        longest = max(int(runs.limits.max()) for _, runs in planned)
        longest = max(work.flavour.size for work in works) if options.full == "wait" else longest
        servers, rules = server_tables(options, works[0], longest, self._device)
        self._offsets = np.cumsum([0, *(work.flavour.size for work in works)])[:-1]
        self._members = members
        starts, limits = self._jobs(planned)
        self.tables = VmTables(traces, flavours, servers, listed_starts(starts, limits, self._device), rules)
        fits = _MOST_BYTES // (4 * max(rules.window if not rules.waits else 3 * rules.alive, 1))
        self.lanes = max(min(starts.size, _MOST_LANES, fits), 1)
        self.state = new_state(self.tables, torch.zeros(self.lanes, dtype=torch.int64, device=self._device))
        self._action = torch.full((self.lanes,), HOLD, device=self._device)
        self._member = torch.from_numpy(np.repeat(np.arange(members), starts.size // members))
        self._member = self._member.to(self._device)
        self._weights = torch.zeros((len(FEATURES), members), dtype=torch.float64, device=self._device)
        kept = [*self.state.named().values(), self._action]
        self._run = replayed(self.step, kept, self._device)

    @few_torch_threads()
    def rate(self, members: Sequence[F64], planned: Planned) -> F64:
        """float64[M, S, 3]: what every run came to; as many members and starts as before."""
        starts, limits = self._jobs(planned)
        self.tables.starts.listed.copy_(torch.from_numpy(starts))
        self.tables.starts.limits.copy_(torch.from_numpy(limits))
        self._weights.copy_(torch.from_numpy(np.stack(members, axis=1)))
        runs, listed = self.state.runs, self.state.listed
        runs.phase.fill_(NEW_RUN)
        listed.next.zero_()
        listed.outcome.zero_()
        self._action.fill_(HOLD)
        while not bool((runs.phase == IDLE).all()):
            for _ in range(_STRETCH):
                self._run()
        outcome: F64 = listed.outcome[:-1].cpu().numpy().reshape(len(members), -1, 3)
        return outcome

    @torch.no_grad()
    def step(self) -> None:
        """One decision of every run that has one."""
        work = self.state.working()
        flavour, fits = move(self.tables, work, self._action)
        weights = self._weights[:, self._member[work.runs.run]]
        place = highest_scores(self.tables, work, flavour, fits, weights)
        self._action.copy_(torch.where(work.runs.phase == DECIDE, place, HOLD))
        self.state.commit(work)

    def _jobs(self, planned: Planned) -> tuple[I64, I64]:
        starts = np.concatenate(
            [runs.starts + offset for (_, runs), offset in zip(planned, self._offsets, strict=True)]
        )
        limits = np.concatenate([runs.limits for _, runs in planned])
        return np.tile(starts, self._members), np.tile(limits, self._members)


class PopulationRater:
    """Rates populations on a device, as `goal.VmsGoal` asks for it; keeps what it plays them in."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._known: dict[object, VmPopulation] = {}

    def __call__(self, members: Sequence[F64], planned: Planned) -> list[F64]:
        """[M] of float64[S, 3]."""
        key = (
            tuple((trace, runs.options, runs.starts.size, _limit_of(runs)) for trace, runs in planned),
            len(members),
        )
        if key not in self._known:
            # One for the population and one for its mean; traces that come and go take their place.
            while len(self._known) > 1:
                del self._known[next(iter(self._known))]
            self._known[key] = VmPopulation(planned, len(members), self._device)
        return list(self._known[key].rate(members, planned))


def _limit_of(runs: VmRuns) -> int:
    return 0 if runs.options.full == "wait" else int(runs.limits.max())
