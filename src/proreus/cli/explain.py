"""A decision with its reasons as a table: a row for each place, the best first."""

from __future__ import annotations

import math
from typing import Any

from rich.table import Table

from proreus.contract.world import Words
from proreus.policies.protocol import Explanation, Verdict

_MOST_SHOWN = 40
_MOST_SCORES = 8
_OTHERS = "others"


def explanation_table(explanation: Explanation, observation: Any, words: Words) -> Table:
    """A row for each place ("node"); scores that differ are columns, those that do not are a remark."""
    place = explanation.place or words.place
    subject = explanation.subject
    subject = f"{words.subject} {subject}" if subject.isdecimal() else subject
    now = getattr(observation, "now", None)
    when = "" if now is None else f"t={now:g} s: "
    told = explanation.told or f"is decided: {explanation.decision}"
    table = Table(title=f"{when}{subject} {told} ({explanation.policy})", title_justify="left")
    varying, constant = _split_scores(explanation)
    table.add_column(place, no_wrap=True)
    for name in varying:
        table.add_column(name, justify="right", overflow="fold")
    table.add_column(explanation.amount, justify="right", no_wrap=True)
    table.add_column("refused by", overflow="fold")
    # A rule that scores nothing still chose one: it comes first.
    chosen = "" if any(v.scores for v in explanation.verdicts) else explanation.chosen
    ranked = sorted(
        explanation.verdicts,
        key=lambda v: (bool(chosen) and v.place != chosen, bool(v.refused_by), not v.looked_at, -v.total),
    )
    for found in ranked[:_MOST_SHOWN]:
        cells = [_cell(found, name, [*varying, *constant]) for name in varying]
        style = "bold" if explanation.chosen and found.place == explanation.chosen else ""
        table.add_row(found.place, *cells, _total(found), found.refused_by, style=style)
    notes = [explanation.note]
    if constant:
        same = ", ".join(f"{name} {_score(value)}" for name, value in constant.items())
        notes.append(f"The same everywhere: {same}.")
    if len(ranked) > _MOST_SHOWN:
        notes.append(f"{len(ranked) - _MOST_SHOWN} more {place}s not shown.")
    table.caption = " ".join(notes)
    table.caption_justify = "left"
    return table


def _split_scores(explanation: Explanation) -> tuple[list[str], dict[str, float]]:
    """Scores that differ between places (as columns, the most telling ones) and those that do not."""
    values: dict[str, list[float]] = {}
    for verdict in explanation.verdicts:
        for name, value in verdict.scores.items():
            values.setdefault(name, []).append(value)
    scored = sum(bool(verdict.scores) for verdict in explanation.verdicts)
    constant = {name: seen[0] for name, seen in values.items() if len(set(seen)) == 1 and len(seen) == scored}
    varying = {name: max(seen) - min(seen) for name, seen in values.items() if name not in constant}
    if len(varying) <= _MOST_SCORES:
        return list(varying), constant
    widest = sorted(varying, key=lambda name: -varying[name])[: _MOST_SCORES - 1]
    return [*(name for name in varying if name in widest), _OTHERS], constant


def _cell(verdict: Verdict, name: str, shown: list[str]) -> str:
    """A score; of "others" the sum of all that have no column."""
    if name == _OTHERS and verdict.scores:
        return _score(sum(value for other, value in verdict.scores.items() if other not in shown))
    return _score(verdict.scores[name]) if name in verdict.scores else ""


def _total(verdict: Verdict) -> str:
    if not verdict.looked_at:
        return "" if verdict.refused_by else "not looked at"
    return _score(verdict.total) if verdict.scores or verdict.total else ""


def _score(value: float) -> str:
    return f"{value:,.0f}" if value == math.floor(value) else f"{value:,.3f}"
