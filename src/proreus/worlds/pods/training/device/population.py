"""A whole population at once: every member on every workload is a lane, scored by weights of its own.

Features are those of `encoding.pair` in double precision, added in the kernel's order, and among equal scores
the first node is taken: the choices are those of `rules.choose` with a linear scorer. M members, W workloads,
E = M W lanes; other letters as in `tables`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from proreus.kernels.arrays import F64
from proreus.learning.tensor_lanes.cuda_graphs import replayed
from proreus.learning.tensor_lanes.gather import at
from proreus.learning.tensor_lanes.triton_support import kernels_run_on
from proreus.model.errors import UsageError
from proreus.model.pod import GPU_WHOLE
from proreus.policies.networks.torch_threads import few_torch_threads
from proreus.worlds.pods.encoding.pair import DEVICE_LEFT, pod_kind
from proreus.worlds.pods.policies.rules.policy import LinearScorer
from proreus.worlds.pods.scenarios import PodScenario
from proreus.worlds.pods.simulation.world import PodsOptions
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.state.devices import LEVEL
from proreus.worlds.pods.training.base_pods import base_pods
from proreus.worlds.pods.training.device.columns import DECIDE, LaneState, new_state
from proreus.worlds.pods.training.device.events import LaneRules
from proreus.worlds.pods.training.device.features import pair_columns
from proreus.worlds.pods.training.device.step import Seen, move, open_nodes
from proreus.worlds.pods.training.device.tables import Tables, tables_of
from proreus.worlds.pods.training.evaluation import compiled_workload

RESTING = 100
"""Phase of a lane that is through."""
_STRETCH = 64
"""Steps between two questions whether all lanes are."""
# What is summed up of a run.
_CPU, _MEMORY, _GPU = range(3)
RATED = {
    "gpu_allocation_peak": _GPU,
    "gpu_allocation": _GPU,
    "cpu_allocation": _CPU,
    "memory_allocation": _MEMORY,
}
"""The measures that a device knows."""
_PEAK = "gpu_allocation_peak"


class PodsPopulation:
    """Plays so many members on the same workloads, each once from its beginning to its end."""

    def __init__(
        self, workloads: Sequence[Compiled], members: int, options: PodsOptions, device: str
    ) -> None:
        self._device, self._workloads = torch.device(device), tuple(workloads)
        bases = [base_pods(each, 0, "allocation") for each in workloads]
        of_lane = np.tile(np.arange(len(workloads)), members)
        self.tables = tables_of(workloads, bases, of_lane, self._device)
        if self.tables.preemption:
            raise UsageError("--device: pods that preempt others are rated on the host's cores; use cpu")
        self._rules = LaneRules(options, completion=False, redraw=False, may_delay=False, may_reject=False)
        lanes, clusters = of_lane.size, [each.cluster for each in workloads]
        rng = torch.zeros(lanes, dtype=torch.int64, device=self._device)
        self.state = new_state(self.tables, rng, self.room(self.tables))
        kinds = [pod_kind(each, c) for each in clusters for c in range(each.classes.request.shape[0])]
        self._kind = torch.tensor(kinds, device=self._device)
        amounts = [
            np.column_stack([each.classes.request[:, :2], each.classes.gpu_num * each.classes.gpu_milli])
            for each in clusters
        ]
        self._amount = torch.from_numpy(np.concatenate(amounts)).double().to(self._device)
        of = self.tables.lanes
        gpus = GPU_WHOLE * of.gpu_count.sum(1, keepdim=True)
        self._capacity = torch.cat([of.allocatable[:, :, :2].sum(1), gpus], 1).double()
        self._weights = torch.zeros(0)
        self._gaps = torch.zeros(0)

        def sums(*shape: int) -> Tensor:
            return torch.zeros((lanes, *shape), dtype=torch.float64, device=self._device)

        self._peak, self._integral, self._used, self._span = sums(3), sums(3), sums(3), sums()
        nodes = of.allocatable.shape[1]
        none = torch.zeros((lanes, nodes), dtype=torch.int64, device=self._device)
        no, nothing = none.bool(), torch.zeros((lanes, 0), device=self._device)
        self._seen = Seen(nothing, nothing, no, none, no[:, 0].clone(), no[:, 0].clone())
        self._action = none[:, 0].clone()

    @staticmethod
    def room(tables: Tables) -> int:
        """For how many pods of a lane; 0: for those that there are."""
        del tables
        return 0

    def rate(self, members: Sequence[LinearScorer], measure: str) -> F64:
        """float64[M, W]: a measure of every member on every workload; more is better."""
        self.play(members)
        return self.measured(measure).reshape(len(members), -1)

    @few_torch_threads()
    def play(self, members: Sequence[LinearScorer]) -> None:
        """Every member once on every workload."""
        weights = [[each.weights_for(work) for work in self._workloads] for each in members]
        stacked = torch.from_numpy(np.array(weights)).flatten(0, 1)  # [E, kinds, F]
        gaps = torch.from_numpy(members[0].gaps_for(self._workloads[0]))
        first = self._weights.shape[0] == 0
        if first:
            self._weights, self._gaps = stacked.to(self._device), gaps.to(self._device)
            sums = [self._peak, self._integral, self._used, self._span]
            kept = [*self.state.named().values(), *self._seen, self._action, *sums]
            self._run = replayed(self.step, kept, self._device)
        self._weights.copy_(stacked)
        self._gaps.copy_(gaps)
        for column in (*self.state.named().values(), *self._seen, self._peak, self._integral, self._used):
            column.zero_()
        while bool((self.state.lanes.phase != RESTING).any()):
            for _ in range(_STRETCH):
                self._run()

    def measured(self, measure: str) -> F64:
        """float64[E]: what was played last."""
        place = RATED[measure]
        capacity = self._capacity[:, place]
        if not bool((capacity > 0).all()):
            name = self._workloads[0].workload.name
            raise UsageError(f"workload {name} has no measure {measure!r}")
        over_time = torch.where(self._span > 0, self._integral[:, place] / self._span, self._used[:, place])
        value = self._peak[:, place] if measure == _PEAK else over_time
        share: F64 = (100.0 * value / capacity).cpu().numpy()
        return share

    @torch.no_grad()
    def step(self) -> None:
        """One decision of every lane that has one, and what is in use meanwhile."""
        tables, work = self.tables, self.state.working()
        lanes, seen = work.lanes, self._seen
        c = at(work.pods.pod_class, lanes.pod)
        placing = (lanes.phase == DECIDE) & seen.ready
        playing = (lanes.phase != RESTING)[:, None]
        idle = torch.cat([work.nodes.free[:, :, :2].sum(1), work.nodes.left.sum((1, 2))[:, None]], 1)
        # Nothing is placed before the first step, and nothing is free on what is not there yet.
        begun = (lanes.arrivals > 0)[:, None]
        used = torch.where(begun, self._capacity - idle, 0.0)
        used = used + torch.where(placing[:, None], self._amount[c], 0.0)
        before = lanes.clock
        move(tables, self._rules, work, (seen, self._action), 1)
        lanes = work.lanes
        passed = torch.where(begun, (lanes.clock - before)[:, None], 0.0)
        self._peak.copy_(torch.where(playing, torch.maximum(self._peak, used), self._peak))
        self._integral.copy_(torch.where(playing, self._integral + used * passed, self._integral))
        over = lanes.ended & playing[:, 0]
        self._used.copy_(torch.where(over[:, None], used, self._used))
        first = tables.pods.arrival[tables.pods.start]
        self._span.copy_(torch.where(over, lanes.clock - first, self._span))
        lanes.phase = lanes.phase.masked_fill(lanes.ended, RESTING)
        self._choose(work)
        self.state.commit(work)

    def _choose(self, work: LaneState) -> None:
        """The first of the nodes with the highest score, in every lane."""
        c, legal, preempts = open_nodes(self.tables, work)
        columns, devices, _ = pair_columns(self.tables, work, c)
        weights = at(self._weights, self._kind[c])  # [E, F]
        parts = torch.stack(columns) * weights.T[:, :, None]
        score = parts[0]
        for part in parts[1:]:
            score = score + part
        if self._gaps.shape[0]:
            score = score + self._gap_change(c, columns[DEVICE_LEFT])
        most = torch.where(legal, score, -torch.inf).amax(1, keepdim=True)
        places = torch.arange(legal.shape[1], device=legal.device)
        node = torch.where(legal & (score == most), places, legal.shape[1]).amin(1)
        self._action.copy_(node)
        ready = legal.any(1)
        for mine, now in zip(self._seen[2:], (legal, devices, preempts, ready), strict=True):
            mine.copy_(now)

    def _gap_change(self, c: Tensor, device_left: Tensor) -> Tensor:
        """What the gap that is left on a shared device is worth, less what it was before."""
        classes = self.tables.classes
        milli = classes.gpu_milli[c][:, None]
        shares = (classes.gpu_num[c][:, None] == 1) & (milli < GPU_WHOLE)
        left = torch.round(device_left * GPU_WHOLE).long()
        last = self._gaps.shape[0] - 1
        worth = [self._gaps[(each // LEVEL).clamp(0, last)] for each in (left, left + milli)]
        return torch.where(shares, worth[0] - worth[1], 0.0)


class PopulationRater:
    """Rates populations on a device, as `goal.PodsGoal` asks for it; keeps those it played in."""

    def __init__(self, device: str, measure: str) -> None:
        self._device, self._measure = device, measure
        self._known: dict[object, PodsPopulation] = {}

    def _is_short(self) -> bool:
        """Whether half of the device's memory is used: else cells that are drawn again are there already."""
        if torch.device(self._device).type != "cuda":
            return True
        torch.cuda.empty_cache()  # what the allocator keeps of entries that are gone counts as used, else
        free, all_of_it = torch.cuda.mem_get_info(self._device)
        return free < all_of_it // 2

    def __call__(
        self, members: Sequence[LinearScorer], cells: Sequence[tuple[PodScenario, int]]
    ) -> list[list[float]]:
        """[M][cells]; scenarios that treat pods in different ways are played one after the other."""
        values = np.zeros((len(members), len(cells)))
        for options in dict.fromkeys(scenario.options for scenario, _ in cells):
            places = [k for k, (scenario, _) in enumerate(cells) if scenario.options == options]
            asked = [cells[k] for k in places]
            key = (tuple(asked), len(members))
            population = self._known.pop(key, None)
            if population is None:
                while len(self._known) > 1 and self._is_short():
                    del self._known[next(iter(self._known))]
                workloads = [compiled_workload(*cell) for cell in asked]
                population = population_on(self._device)(workloads, len(members), options, self._device)
            self._known[key] = population  # last: the first is the one that was asked for longest ago
            values[:, places] = population.rate(members, self._measure)
        rows: list[list[float]] = values.tolist()
        return rows


def population_on(device: str) -> type[PodsPopulation]:
    """With kernels of its own where there are some."""
    if kernels_run_on(torch.device(device)):
        from proreus.worlds.pods.training.device.fused.population import FusedPopulation

        return FusedPopulation
    return PodsPopulation
