"""The toy world as one value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from proreus.contract.benchmark import BenchRow, claim
from proreus.contract.play import step_by_step
from proreus.contract.world import Quantity, Words, World
from tests.toy.policies import POLICIES
from tests.toy.scenarios import DATASETS, PRESETS, ToyFlags, from_json
from tests.toy.simulation import MEASURES


def bench(data: Path | None, say: Callable[[str], None]) -> Iterator[BenchRow]:
    """How fast it decides."""
    say("shortest on busy")
    busy = PRESETS["busy"]
    played = step_by_step(busy, busy.load(0), POLICIES.make("shortest"), 0)
    yield claim("shortest on busy", "decisions/s", played.measures["decisions_per_s"], goal=1.0)


WORLD = World(
    name="toy",
    what="jobs for two servers, one fast and one slow",
    flags=ToyFlags,
    scenario=from_json,
    presets=tuple(PRESETS),
    policies=lambda scenario: POLICIES,
    play=step_by_step,
    measures=MEASURES,
    quantities=(
        Quantity("line", "Jobs in line", "jobs", "line"),
        Quantity("held", "Jobs on servers", "jobs", "held"),
    ),
    words=Words("jobs", "server", does={"time_in_system": "has a job done in {} on average"}),
    warm_up=lambda: None,
    datasets=DATASETS,
    learners={"es": "tests.toy.training:ES", "ppo": "tests.toy.training:PPO"},
    bench="tests.toy.world:bench",
)
