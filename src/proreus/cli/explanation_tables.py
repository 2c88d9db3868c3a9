"""A decision with its reasons as tables: a row for each place, the best first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from rich.cells import cell_len
from rich.table import Table

from proreus.compare.layout import side_by_side, table_width
from proreus.contract.world import Words
from proreus.policies.protocol import Explanation, Verdict

_MOST_SHOWN = 40
_MOST_SCORES = 8
_OTHERS = "others"
_REFUSED = "refused by"
_MOST_OF_A_REFUSAL = 24
"""Columns that it asks for: what is longer goes on in the next line."""
_FRAME = 3
"""Between two cells: a blank on both sides, and a line."""


def explanation_tables(
    explanation: Explanation, observation: Any, words: Words, width: int
) -> Iterator[Table]:
    """A row for each place ("node"); scores that differ are columns, those that do not are a remark.

    Where lines of that width have no room for all columns, there are several tables below each other.
    """
    place = explanation.place or words.place
    varying, constant = _split_scores(explanation)
    ranked = _ranked(explanation)
    shown = ranked[:_MOST_SHOWN]
    names = [verdict.place for verdict in shown]
    scores = [
        _Column(name, [_cell(verdict, name, [*varying, *constant]) for verdict in shown]) for name in varying
    ]
    total = _Column(explanation.amount, [_total(verdict) for verdict in shown])
    refusals = [verdict.refused_by for verdict in shown]
    verdict_width = total.widest + _FRAME + min(_longest_word([_REFUSED, *refusals]), _MOST_OF_A_REFUSAL)
    first = max(map(cell_len, (place, *names)))
    widths = [first, *(column.widest for column in scores), verdict_width]
    if table_width(widths) > width:
        scores = [replace(column, width=column.narrowest) for column in scores]
        widths = [first, *(column.width for column in scores), verdict_width]
    groups = side_by_side(widths, width)
    for group in groups:
        table = Table(title_justify="left", caption_justify="left")
        table.add_column(place, no_wrap=True)
        columns = [scores[number - 1] for number in group[1:] if number <= len(scores)]
        for column in columns:
            table.add_column(column.name, justify="right", width=column.width or column.widest)
        cells = [names, *(column.cells for column in columns)]
        if group is groups[0]:
            table.title = _title(explanation, observation, words)
        if group is groups[-1]:
            table.add_column(total.name, justify="right", no_wrap=True)
            table.add_column(_REFUSED, overflow="fold")
            cells += [total.cells, refusals]
            left_out = f"{len(ranked) - len(shown)} more {place}s" if len(ranked) > len(shown) else ""
            table.caption = _caption(explanation, constant, left_out)
        for row in zip(*cells, strict=True):
            style = "bold" if explanation.chosen and row[0] == explanation.chosen else ""
            table.add_row(*row, style=style)
        yield table


@dataclass(frozen=True)
class _Column:
    """Figures under a name."""

    name: str
    cells: list[str]
    width: int = 0
    """0: as wide as it likes."""

    @property
    def widest(self) -> int:
        return max(map(cell_len, (self.name, *self.cells)))

    @property
    def narrowest(self) -> int:
        """Where neither a figure nor a word of the name is broken."""
        return max(_longest_word([self.name]), *map(cell_len, self.cells), 1)


def _longest_word(texts: list[str]) -> int:
    return max((cell_len(word) for text in texts for word in text.split()), default=0)


def _ranked(explanation: Explanation) -> list[Verdict]:
    # A rule that scores nothing still chose one: it comes first.
    chosen = "" if any(v.scores for v in explanation.verdicts) else explanation.chosen
    return sorted(
        explanation.verdicts,
        key=lambda v: (bool(chosen) and v.place != chosen, bool(v.refused_by), not v.looked_at, -v.total),
    )


def _title(explanation: Explanation, observation: Any, words: Words) -> str:
    subject = explanation.subject
    subject = f"{words.subject} {subject}" if subject.isdecimal() else subject
    now = getattr(observation, "now", None)
    when = "" if now is None else f"t={now:g} s: "
    outcome = explanation.told or f"is decided: {explanation.decision}"
    return f"{when}{subject} {outcome} ({explanation.policy})"


def _caption(explanation: Explanation, constant: dict[str, float], left_out: str) -> str:
    notes = [explanation.note]
    if constant:
        same = ", ".join(f"{name} {_score(value)}" for name, value in constant.items())
        notes.append(f"The same everywhere: {same}.")
    if left_out:
        notes.append(f"{left_out} not shown.")
    return " ".join(notes)


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
