"""The player of a scenario's replays: its place in the report's page, and its numbers for the script."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape

from proreus.contract.replay import ABSENT, FULL, Replay, changes


def player_element(scenario: int) -> str:
    """The id of the player of the scenario at that place of the request."""
    return f"replay-{scenario}"


def player(element: str, replays: Mapping[str, Replay], policies: Sequence[str], seed: int) -> str:
    """The player as HTML, empty until the script fills it; replays by policy, in the order of the buttons."""
    if not replays:
        return ""
    buttons = "".join(
        f'<button type="button" aria-pressed="false" data-policy="{policies.index(policy)}">'
        f"{escape(policy)}</button>"
        for policy in replays
    )
    place = escape(next(iter(replays.values())).stage.place)
    return (
        f"<h3>Replay <small>seed {seed}</small></h3>"
        f'<p class="note">How the {place}s fill and what moves, frame by frame: play it, drag the slider, '
        "or step with the arrow keys.</p>"
        '<noscript><p class="note">The replay needs JavaScript, which is off.</p></noscript>'
        f'<div class="replay" id="{element}" hidden>'
        f'<div class="legend" role="group" aria-label="Choose a policy">{buttons}</div>'
        f'<figure tabindex="0" aria-label="Replay of the {place}s"><p class="moment" aria-live="polite"></p>'
        '<svg class="stage" role="img"></svg><p class="note keys"></p>'
        '<div class="controls legend"><button type="button" class="back">previous</button>'
        '<button type="button" class="play">play</button><button type="button" class="on">next</button>'
        '<input type="range" min="0" value="0" aria-label="Frame"></div></figure></div>'
    )


def player_data(replay: Replay) -> dict[str, object]:
    """One replay for the script."""
    stage, frame_changes = replay.stage, changes(replay.levels)
    items = list(dict.fromkeys(move.item for frame in replay.moves for move in frame))
    number = {item: place for place, item in enumerate(items)}
    moves = [[[number[move.item], move.source, move.target] for move in frame] for frame in replay.moves]
    return {
        "place": stage.place,
        "part": stage.part,
        "boxes": stage.boxes,
        "drawn": replay.levels.shape[1],
        "leftOut": replay.left_out,
        "compartments": replay.levels.shape[2],
        "gauges": stage.gauges,
        "depth": stage.depth,
        "groups": stage.groups,
        "states": stage.states,
        "colour": stage.colour,
        "full": FULL,
        "absent": ABSENT,
        "limit": stage.limit,
        "idle": stage.idle,
        "moments": replay.moments,
        "seconds": None if replay.seconds is None else [round(moment) for moment in replay.seconds.tolist()],
        "lengths": [len(frame) for frame in frame_changes],
        "changes": base64.b64encode(b"".join(frame_changes)).decode("ascii"),
        "items": items,
        "moves": moves,
    }
