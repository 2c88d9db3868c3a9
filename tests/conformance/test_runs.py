"""Laws of a run: it is determined by its seed, takes what it says it takes, and says what it promised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from proreus.contract.play import NotedDecisions, step, step_by_step, walk
from proreus.contract.simulation import Simulation
from proreus.model.errors import IllegalDecision
from tests.conformance.cases import (
    GARBAGE,
    NO_DECISIONS,
    Case,
    Hidden,
    digest,
    every_case,
    every_rule,
    once,
    told,
    work_of,
)

SAMPLED = (0, 3, 20)
"""Decisions at which the mask is held against what is taken."""
MOST = 40
"""Actions that are tried at each."""
LOOKED_AT = 40
"""A run is drawn and summed up at so many first decisions, and then at every so many: a summary tells of all
that was before, so that one at each of a thousand decisions would be a million rows."""


@every_rule
def test_the_same_seed_gives_the_same_log(case: Case, name: str) -> None:
    assert told(once(case, name, 1)) == told(case.play(case.make(name, 1), 1))


@every_case
def test_another_seed_is_other_work(case: Case) -> None:
    assert digest(work_of(case, 0)) == digest(case.scenario.load(0))
    assert digest(work_of(case, 0)) != digest(work_of(case, 1))
    assert told(once(case, case.main)) != told(once(case, case.main, 1))


@every_rule
def test_whatever_is_fused_decides_as_step_by_step(case: Case, name: str) -> None:
    fused = told(once(case, name, 1))
    assert fused == told(case.play(Hidden(case.make(name, 1)), 1))
    plain = step_by_step(case.scenario, work_of(case, 1), case.make(name, 1), 1)
    assert fused == told(plain.outcome)


@every_rule
def test_a_picture_does_not_change_the_run(case: Case, name: str) -> None:
    drawn = case.world.play(case.scenario, work_of(case, 1), case.make(name, 1), 1, picture=True)
    assert drawn.picture is not None and drawn.picture.replay is not None
    assert told(drawn.outcome) == told(once(case, name, 1))
    assert drawn.picture.facts
    assert set(drawn.picture.recording.series) & {quantity.key for quantity in case.world.quantities}


@every_case
def test_the_mask_is_what_is_taken(case: Case) -> None:
    decisions = _decisions(case)
    draw = np.random.default_rng(0)
    tried = 0
    for place in SAMPLED:
        if place >= len(decisions):
            break
        mask = _observed(_at(case, decisions[:place])).action_mask()
        assert mask.dtype == np.bool_ and mask.any()
        legal, illegal = (_some(np.flatnonzero(allowed), draw) for allowed in (mask, ~mask))
        for action in legal:
            _at(case, decisions[:place]).apply(action)
            tried += 1
        refusing = _at(case, decisions[:place])
        for action in (*illegal, *GARBAGE, mask.size, *NO_DECISIONS.get(case.world.name, ())):
            with pytest.raises(IllegalDecision):
                refusing.apply(action)
        # Numbers as NumPy has them are numbers, too.
        refusing.apply(np.int64(legal[0]))
    assert tried


@every_case
def test_a_refused_decision_changes_nothing(case: Case) -> None:
    policy, plain = case.make(case.main).fresh(0), once(case, case.main)
    simulation = case.scenario.start(work_of(case), 0)
    refused = 0
    while (observation := simulation.next_decision()) is not None:
        mask = observation.action_mask()
        wrong = [*np.flatnonzero(~mask)[:3].tolist(), *np.flatnonzero(~mask)[-3:].tolist()]
        for action in (*wrong, *GARBAGE, mask.size):
            with pytest.raises(IllegalDecision):
                simulation.apply(action)
            refused += 1
        step(simulation, policy)
    with pytest.raises(IllegalDecision):
        simulation.apply(0)
    assert refused and told(simulation.outcome()) == told(plain)


@every_case
def test_asking_twice_is_asking_once(case: Case) -> None:
    simulation, policy = case.scenario.start(work_of(case), 0), case.make(case.main).fresh(0)
    decided = 0
    while (observation := simulation.next_decision()) is not None:
        again = simulation.next_decision()
        assert again is not None and simulation.subject() != ""
        np.testing.assert_array_equal(observation.action_mask(), again.action_mask())
        if decided < LOOKED_AT or decided % LOOKED_AT == 0:
            simulation.screen()
            simulation.outcome()
        step(simulation, policy)
        decided += 1
    assert simulation.next_decision() is None
    assert told(simulation.outcome()) == told(once(case, case.main))


@every_rule
def test_measures_are_declared_and_logs_have_one_shape(case: Case, name: str) -> None:
    outcome, headings = once(case, name, 1), case.scenario.headings
    assert set(outcome.measures) <= set(case.world.measures)
    assert any(deciding in outcome.measures for deciding in headings.deciding)
    assert outcome.columns == once(case, case.main).columns
    assert len(set(outcome.columns)) == len(outcome.columns) > 0
    assert all(len(row) == len(outcome.columns) for row in outcome.rows)
    assert np.isfinite(list(outcome.measures.values())).all()


@every_case
def test_what_is_said_of_a_world_is_there(case: Case) -> None:
    world, headings = case.world, case.scenario.headings
    declared = set(world.measures)
    assert headings.deciding and {*headings.deciding, *headings.telling} <= declared
    assert {*world.words.does, *world.words.unplaced, *world.words.unplaced.values()} <= declared
    assert set(headings.deciding) <= set(world.words.does)
    assert all(text.count("{}") == 1 for text in world.words.does.values())
    measure, rules = case.scenario.yardstick()
    assert measure in declared and rules and set(rules) <= set(world.policies(case.scenario).rules)
    assert all(
        name == known.name and known.better in ("higher", "lower") for name, known in world.measures.items()
    )
    assert case.scenario.caution((0, 1)) == ""


def _decisions(case: Case) -> list[Any]:
    noted = NotedDecisions(case.make(case.main).fresh(0))
    walk(case.scenario.start(work_of(case), 0), noted)
    assert noted.decisions
    return noted.decisions


def _at(case: Case, decisions: list[Any]) -> Simulation[Any, Any]:
    """A run after those decisions, at its next one."""
    simulation = case.scenario.start(work_of(case), 0)
    for decision in decisions:
        assert simulation.next_decision() is not None
        simulation.apply(decision)
    assert simulation.next_decision() is not None
    return simulation


def _observed(simulation: Simulation[Any, Any]) -> Any:
    return simulation.next_decision()


def _some(actions: Any, draw: np.random.Generator) -> list[int]:
    chosen = actions if actions.size <= MOST else np.sort(draw.choice(actions, MOST, replace=False))
    picked: list[int] = chosen.tolist()
    return picked
