"""What runs in the playground's processes: lists what can be played, and plays it.

Questions and answers are JSON. A question names a world, a scenario and a policy of their catalogues; nothing
in it is ever taken for a path or for code.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from proreus.compare.report.player import player_data
from proreus.contract.gantt import MOST_BARS, Gantt
from proreus.contract.scenario import SEEDS, Scenario
from proreus.contract.simulation import Pictured
from proreus.contract.variation import Variable, Variation
from proreus.contract.world import Played, World
from proreus.kernels.arrays import F64
from proreus.model.errors import ProreusError, UsageError
from proreus.policies.catalogue import LEARNED
from proreus.workers.child_main import Channel
from proreus.worlds import registered
from proreus.worlds import world as world_of

MOST_LOAD = 4
_MOST_WITHOUT = 64


def main(channel: Channel) -> None:
    """Answer until nobody is left to ask."""
    while True:
        question = json.loads(channel.receive())
        try:
            answer = catalogue() if question.get("do") == "catalogue" else run(question)
        except ProreusError as error:
            answer = {"refused": str(error)}
        channel.send(json.dumps(answer, separators=(",", ":"), allow_nan=False).encode())


def catalogue() -> dict[str, Any]:
    """Every world with its presets, and what plays each."""
    return {"worlds": [_world_entry(world_of(name)) for name in registered()]}


def _world_entry(world: World) -> dict[str, Any]:
    scenarios = []
    for preset in world.presets:
        scenario = world.flags().chosen(preset)
        policies = [{"name": name, "about": about} for name, about in world.policies(scenario).describe()]
        names = {policy["name"] for policy in policies}
        policies = [policy for policy in policies if _is_plain(policy["name"])]
        shown = [name for name in world.policies(scenario).main if name in names]
        scenarios.append(
            {
                "name": preset,
                "policies": policies,
                "main": shown,
                "load": _varies(scenario, Variation(load=2)),
                "without": _varies(scenario, Variation(without=frozenset({0}))),
                "remarks": list(scenario.headings.remarks),
            }
        )
    words = world.words
    return {
        "name": world.name,
        "what": world.what,
        "noun": words.noun,
        "place": words.place,
        "scenarios": scenarios,
    }


def _varies(scenario: Scenario, variation: Variation) -> bool:
    if not isinstance(scenario, Variable):
        return False
    try:
        scenario.varied(variation)
    except UsageError:
        return False
    return True


def _is_plain(name: str) -> bool:
    return name == LEARNED or name.replace("_", "").replace("-", "").isalnum()


def run(question: dict[str, Any]) -> dict[str, Any]:
    """One policy over the work of one seed: its measures, and its picture."""
    world = _listed_world(question.get("world"))
    name, policy_name, seed = question.get("scenario"), question.get("policy"), question.get("seed")
    if name not in world.presets:
        raise UsageError(f"{world.name}: no scenario of the playground is called {str(name)[:80]!r}")
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < SEEDS:
        raise UsageError("a seed is a whole number from 0 on")
    scenario = world.flags().chosen(name)
    policies = world.policies(scenario)
    if not isinstance(policy_name, str) or policy_name not in dict(policies.describe()):
        raise UsageError(f"{world.name}: no policy of the catalogue is called {str(policy_name)[:80]!r}")
    varied, boxes = _varied(scenario, question, seed)
    work = varied.load(seed)
    played = world.play(varied, work, policies.make(policy_name, None, seed), seed, picture=True)
    return {
        "world": world.name,
        "scenario": name,
        "policy": policy_name,
        "seed": seed,
        "boxes": boxes,
        "deciding": list(varied.headings.deciding),
        "remark": played.remark,
        **_told(world, played),
    }


def _listed_world(name: object) -> World:
    if not isinstance(name, str) or name not in registered():
        raise UsageError(f"there is no world {str(name)[:80]!r}")
    return world_of(name)


def _varied(scenario: Scenario, question: dict[str, Any], seed: int) -> tuple[Scenario, list[str]]:
    """The scenario as it was asked for, and the names of the boxes of the plain one."""
    load, without = question.get("load", 1), question.get("without", [])
    if not isinstance(load, int) or isinstance(load, bool) or not 1 <= load <= MOST_LOAD:
        raise UsageError(f"load: it is a whole number from 1 to {MOST_LOAD}")
    names = _boxes(scenario, seed)
    if not isinstance(without, list) or len(without) > _MOST_WITHOUT:
        raise UsageError(f"without: it is a list of at most {_MOST_WITHOUT} names")
    unknown = [name for name in without if name not in names]
    if unknown:
        raise UsageError(f"without: there is no {str(unknown[0])[:80]!r}")
    variation = Variation(load, frozenset(names.index(name) for name in without))
    if variation.plain:
        return scenario, names
    if not isinstance(scenario, Variable):
        raise UsageError(f"{scenario.name}: there are no variations of it")
    return scenario.varied(variation), names


def _boxes(scenario: Scenario, seed: int) -> list[str]:
    simulation = scenario.start(scenario.load(seed), seed)
    return list(simulation.stage().boxes) if isinstance(simulation, Pictured) else []


def _told(world: World, played: Played) -> dict[str, Any]:
    picture = played.picture
    told: dict[str, Any] = {
        "measures": [
            {
                "name": name,
                "title": measure.in_words,
                "unit": measure.unit,
                "better": measure.better,
                "value": played.measures[name],
            }
            for name, measure in world.measures.items()
            if name in played.measures and np.isfinite(played.measures[name])
        ],
        "facts": [],
        "replay": None,
        "curves": [],
        "time": [],
        "gantt": None,
    }
    if picture is None:
        return told
    titles = {quantity.key: (quantity.title, quantity.unit) for quantity in world.quantities}
    titles |= {layer.key: (layer.title, strip.unit) for strip in world.timeline for layer in strip.layers}
    recording = picture.recording
    told |= {
        "facts": list(picture.facts),
        "replay": None if picture.replay is None else player_data(picture.replay),
        "time": _numbers(recording.time),
        "curves": [
            {"key": key, "title": titles[key][0], "unit": titles[key][1], "values": _numbers(values)}
            for key, values in recording.series.items()
            if key in titles and np.any(np.nan_to_num(values))
        ],
        "gantt": None if picture.gantt is None else gantt_data(picture.gantt),
    }
    return told


def gantt_data(gantt: Gantt) -> dict[str, Any]:
    """The bars for the page, as columns."""
    shown = slice(0, MOST_BARS)
    return {
        "rows": list(gantt.rows),
        "groups": list(gantt.groups),
        "row": gantt.row[shown].tolist(),
        "group": gantt.group[shown].tolist(),
        "begin": _numbers(gantt.begin[shown]),
        "end": _numbers(gantt.end[shown]),
        "note": gantt.note,
        "leftOut": gantt.left_out,
    }


def _numbers(values: F64) -> list[float | None]:
    """Six significant digits: more cannot be seen."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]
