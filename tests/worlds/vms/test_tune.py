"""What `tune vms` plays and trains on: parts of a trace that never meet, and the cluster as it is."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cmaes", reason="training needs the extra `learn`")

from proreus.contract.scenario import PARTS
from proreus.model.errors import InputError
from proreus.worlds.vms.encoding.gaps import GAP_FEATURES
from proreus.worlds.vms.flags import VmsFlags
from proreus.worlds.vms.scenarios import VmScenario, scenario_from_json, trace_of_part
from proreus.worlds.vms.training.goal import VmsESConfig, VmsGoal
from proreus.worlds.vms.training.specialist import SPECIALIST, starts
from proreus.worlds.vms.training.training_trace import held_out, training_stretches, training_trace

MACHINES = 1_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A machine a second, which stays for ten: its arrival is its number."""
    rows = [f"vm-{k},1,2,{k},10" for k in range(MACHINES)]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(["vmid,cpu,mem,at,lt", *rows]) + "\n")
    return path


def drawn(file: Path, scenario: str = "waiting@2", servers: str = "") -> VmScenario:
    return VmsFlags(scenario=scenario, servers=servers).drawing(str(file))


@pytest.mark.parametrize("scenario", ["waiting@2", "rejecting@2", "recovering@2"])
def test_no_run_leaves_its_part(file: Path, scenario: str) -> None:
    own = drawn(file, scenario)
    met = {}
    for part in PARTS:
        runs = own.of_part(part).load(3)
        met[part] = set(runs.work.arrival.tolist())
        assert runs.starts.max() < runs.work.flavour.size * 3 // 4
    assert [len(met[part]) for part in PARTS] == [600, 200, 200]
    assert max(met["train"]) < min(met["valid"]) and max(met["valid"]) < min(met["test"])


def test_nor_does_training_see_anything_of_the_end(file: Path) -> None:
    trace = training_trace(drawn(file))
    ((train, begin),) = training_stretches(trace, 8, 1, np.random.default_rng(0))
    ((valid, _),) = held_out(trace, "choose", 8, 1)
    assert train.trace().arrival[-1] == 599 and begin.max() < 450
    assert (valid.trace().arrival[0], valid.trace().arrival[-1]) == (600, 799)


def test_every_seed_draws_other_runs_and_the_same_ones_again(file: Path) -> None:
    own = drawn(file)
    first, again, other = own.load(0).starts, own.load(0).starts, own.load(1).starts
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_such_a_scenario_is_written_down_and_read_again(file: Path) -> None:
    own = drawn(file).of_part("valid")
    assert scenario_from_json(own.to_json()) == replace(own, file=file.resolve())


def test_too_few_machines_are_refused(tmp_path: Path) -> None:
    short = tmp_path / "short.csv"
    short.write_text("vmid,cpu,mem,at,lt\nvm-0,1,2,0,10\n")
    with pytest.raises(InputError, match="1 machines are too few to learn from one part"):
        trace_of_part(short, "train")


def test_a_mixed_cluster_is_trained_on_as_it_is(file: Path) -> None:
    own = drawn(file, "rejecting@2", "1x4/8+1x16/64")
    with ThreadPoolExecutor(1) as pool:
        learner = SPECIALIST.learners["rejected"]
        config = VmsESConfig(generations=1, population=4, starts=2, validation_starts=2)
        goal = learner.goal((own,), config, pool)
        assert isinstance(goal, VmsGoal)
        (gain,) = goal.validate(goal.start)
    assert gain == "2 servers" and [shape.cpu for shape in goal._sizes[0].servers] == [4.0, 16.0]


def test_what_ships_is_a_start_where_it_is_weights_in_this_cluster(file: Path) -> None:
    waiting, rejecting = starts(drawn(file)), starts(drawn(file, "rejecting@20"))
    assert next(iter(waiting)) == "learned" and {"first_fit", "worst_fit"} < set(waiting)
    assert not waiting["first_fit"].any() and rejecting["worst_fit"].any()


def test_where_machines_are_turned_away_gaps_are_weighed(file: Path) -> None:
    rejecting = starts(drawn(file, "rejecting@20"))
    assert {"learned, crowded", "learned, calm", "first_fit", "worst_fit"} <= set(rejecting)
    assert {weights.shape for weights in rejecting.values()} == {(len(GAP_FEATURES),)}
    (config,) = SPECIALIST.learners["rejected"].configs
    assert SPECIALIST.learners["rejected"].identity((drawn(file),), (config,)).kind == "gaps"
