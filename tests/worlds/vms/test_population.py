"""A population on a device = its members on the host's cores: the same runs from the same starts.

Scores are added in the kernel's order, so that every choice is the same, ties included, and every outcome is
equal to the last bit.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

pytest.importorskip("cmaes", reason="training needs the extra `learn`")

from proreus.kernels.arrays import F64
from proreus.learning.es import evolve
from proreus.model.errors import UsageError
from proreus.worlds.vms.encoding.place import FEATURES, encode_place
from proreus.worlds.vms.model import ServerShape
from proreus.worlds.vms.policies.columns import LEARNED
from proreus.worlds.vms.policies.experts import VmScorer
from proreus.worlds.vms.simulation.columns import DECIDING, MACHINE, STATUS
from proreus.worlds.vms.simulation.kernel import begin, put
from proreus.worlds.vms.simulation.runs import planned_runs
from proreus.worlds.vms.simulation.world import SCENARIOS, VmsOptions, new_lanes
from proreus.worlds.vms.state.servers import first_place
from proreus.worlds.vms.training import learners
from proreus.worlds.vms.training.device import population
from proreus.worlds.vms.training.device.population import PopulationRater, VmPopulation
from proreus.worlds.vms.training.device.scores import place_features
from proreus.worlds.vms.training.goal import VmsESConfig, VmsGoal, member_runs
from proreus.worlds.vms.training.training_trace import TrainingTrace, evenly
from tests.inline_pool import InlinePool
from tests.tensor_laws import Elsewhere, hollow

TRACE = TrainingTrace(machines=2_500, seed=11, density=2.0)
OTHER = replace(TRACE, seed=12)
SMALL = (ServerShape(2, 20, 45),)
CASES: dict[str, tuple[VmsOptions, int]] = {
    "waits": (replace(SCENARIOS["waiting"], servers=SMALL), 0),
    "ends": (replace(SCENARIOS["recovering"], servers=SMALL), 150),
    "turns away": (replace(SCENARIOS["rejecting"], servers=SMALL), 120),
    "grows": (replace(SCENARIOS["expansion"], servers=SMALL, growth=1, most_servers=4), 150),
    "mixed servers": (
        replace(SCENARIOS["recovering"], servers=(ServerShape(1, 20, 45), ServerShape(2, 12, 50))),
        150,
    ),
}


def members(count: int) -> list[F64]:
    """The first treats all places alike: every choice of it is a tie."""
    random = np.random.default_rng(3)
    return [np.zeros(len(FEATURES)), *(random.normal(size=len(FEATURES)) for _ in range(count - 1))]


@pytest.mark.parametrize("case", CASES)
def test_a_population_is_its_members(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(population, "_MOST_LANES", 9)  # fewer than runs: lanes take one after the other
    options, limit = CASES[case]
    planned = [
        (trace, planned_runs(trace.work(options.double), options, evenly(0, 1_500, 4, 0.4), limit))
        for trace in (TRACE, OTHER)
    ]
    asked = members(3)
    rater = PopulationRater("cpu")
    for vectors in (asked, asked[::-1]):  # the second time in what the first was played in
        for vector, rows in zip(vectors, rater(vectors, planned), strict=True):
            expected = np.concatenate(
                [
                    member_runs(
                        trace, options, (VmScorer(LEARNED, vector), "both"), (runs.starts, runs.limits)
                    )[0]
                    for trace, runs in planned
                ]
            )
            np.testing.assert_array_equal(rows, expected)
    if case in ("waits", "turns away"):
        assert expected[:, 2 if case == "waits" else 1].sum() > 0


def test_features_are_the_hosts() -> None:
    options, _ = CASES["mixed servers"]
    work = TRACE.work(options.double)
    lanes = new_lanes(work, options, 1, 200)
    begin(work, lanes, 0, 40, 200)
    there = VmPopulation([(TRACE, planned_runs(work, options, np.array([40]), 200))], 1, "cpu")
    servers = lanes.servers
    for _ in range(60):
        if lanes.tally[0, STATUS] != DECIDING:
            break
        flavour = int(work.flavour[lanes.tally[0, MACHINE]])
        there.state.clusters.free.copy_(torch.from_numpy(servers.free))
        there.state.runs.servers.fill_(3)
        features = place_features(there.tables, there.state, torch.tensor([flavour])).numpy()
        for place in np.flatnonzero(servers.fits[0, flavour, :6]).tolist():
            if not work.flavours.double[flavour]:
                mine = features[:, 0, place // 2, place % 2]
                np.testing.assert_array_equal(mine, encode_place(servers, work.flavours, 0, flavour, place))
        put(work, lanes, 0, first_place(servers, 0, flavour))


def test_a_search_goes_the_same_way_on_a_device() -> None:
    options = CASES["waits"][0]
    config = VmsESConfig(
        generations=2, population=4, starts=4, validation_starts=4, evaluate_every=2, servers=(2, 1)
    )
    one = list(evolve(config, VmsGoal(config, TRACE, options, InlinePool())))
    two = list(evolve(config, VmsGoal(config, TRACE, options, InlinePool(), PopulationRater("cpu"))))
    for mine, theirs in zip(one, two, strict=True):
        assert mine.fitness == theirs.fitness and mine.counts == theirs.counts
        assert mine.validation == theirs.validation
        np.testing.assert_array_equal(mine.mean, theirs.mean)


def test_what_a_device_lacks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert learners.rater_of(VmsESConfig()) is None
    monkeypatch.setattr(learners, "uses_cuda", lambda device: True)
    for config in (VmsESConfig(device="cuda", weighs="gaps"), VmsESConfig(device="cuda", stage="calm")):
        with pytest.raises(UsageError, match="the host's cores"):
            learners.rater_of(config)
        assert learners.rater_of(replace(config, device="auto")) is None


def test_a_step_never_looks_at_a_value() -> None:
    options, _ = CASES["waits"]
    there = VmPopulation([(TRACE, planned_runs(TRACE.work(options.double), options, np.arange(4)))], 2, "cpu")
    for name, value in list(vars(there).items()):
        setattr(there, name, hollow(value))
    with Elsewhere() as elsewhere:
        there.step()
    assert elsewhere.operations == set()
