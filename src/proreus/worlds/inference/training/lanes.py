"""Runs of a service side by side, as learners that score actions see them."""

from __future__ import annotations

from pathlib import Path

from proreus.contract.episodes import EpisodeLanes
from proreus.worlds.inference.encoding.actions import VERSION, encode_actions
from proreus.worlds.inference.scenarios import InferenceScenario, parse

_SEEDS = 100_000


def lanes_of(scenario: InferenceScenario, count: int) -> EpisodeLanes:
    """Episodes of the training part; what an interval is worth the scenario's objectives say."""
    return EpisodeLanes(scenario.of_part("train"), count, _SEEDS, encode_actions, VERSION)


def episodes(scenario: str = "steady", count: int = 1, *, data: Path | str | None = None) -> EpisodeLanes:
    """`count` lanes by the name of a scenario, for vector environments."""
    return lanes_of(parse(scenario, None if data is None else Path(data)), count)
