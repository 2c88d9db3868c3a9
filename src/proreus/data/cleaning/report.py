"""What a cleaning did to how many rows: one tally per rule, with the first lines as examples."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from proreus.model.errors import InputError

Lines = npt.NDArray[np.int64]
_EXAMPLES = 5


class CleaningRule(Enum):
    """The faults, in the order in which a row is held against them."""

    CELLS = ("cells", "a row with cells missing or in excess")
    TIME = ("time", "a time that is missing or cannot be read")
    NAME = ("name", "a row without the name of its pod or service")
    MISSING = ("missing", "a missing cpu or mem")
    NOT_A_NUMBER = ("not a number", "a cpu or mem that is no number")
    NOT_FINITE = ("not finite", "a cpu or mem that is NaN or infinite")
    NEGATIVE = ("negative", "a negative cpu or mem")
    SUFFIX = ("unit suffix", "a number with its own unit")
    CLOCK_SPIKE = ("clock spike", "a single time far ahead of the rows before and after it")
    CLOCK_JUMP = ("clock jump", "a time further back than --late")
    LATE = ("late", "a row out of the order of time")
    DUPLICATE = ("duplicate", "a line that repeats an earlier one")
    SAME_TIME = ("same time", "another row of the same pod at the same time")
    CPU_UNIT = ("cpu unit", "a cpu in another unit than the rest of its pod")
    MEM_UNIT = ("mem unit", "a mem in another unit than the rest of its pod")
    GAP = ("gap", "a window without a row")

    def __init__(self, title: str, words: str) -> None:
        self.title = title
        self.words = words


@dataclass
class Tally:
    """What one rule did."""

    repaired: int = 0
    dropped: int = 0
    examples: list[int] = field(default_factory=list)
    """The first lines it touched."""


@dataclass
class Report:
    """The account of one cleaning; its law: rows in = rows out + rows dropped."""

    file: Path
    strict: bool = False
    kind: str = ""
    rows_in: int = 0
    rows_out: int = 0
    windows_out: int = 0
    windows_filled: int = 0
    pods: int = 0
    tallies: dict[CleaningRule, Tally] = field(
        default_factory=lambda: {rule: Tally() for rule in CleaningRule}
    )
    refusal: InputError | None = None
    """Why the file is to be refused: the fault with the smallest line so far."""

    def repaired(self, rule: CleaningRule, lines: Lines) -> None:
        """Note rows that were mended; under --strict the file is refused for them."""
        self._note(rule, lines)
        self.tallies[rule].repaired += len(lines)

    def read(self, rule: CleaningRule, lines: Lines) -> None:
        """Note rows that needed a rule but had no fault, which --strict lets pass too."""
        self._examples(rule, lines)
        self.tallies[rule].repaired += len(lines)

    def dropped(self, rule: CleaningRule, lines: Lines) -> None:
        """Note rows that were left out."""
        self._note(rule, lines)
        self.tallies[rule].dropped += len(lines)

    def refuse(self, rule: CleaningRule, lines: Lines, hint: str = "") -> None:
        """Note that the file is to be refused for the first of the lines, where there is one.

        It is not refused at once: rules that look at single rows are ahead of those that look at windows,
        which may yet find a fault in an earlier line.
        """
        if not len(lines):
            return
        line = int(lines.min())
        if self.refusal is None or line < (self.refusal.line or 0):
            self.refusal = InputError(rule.words + hint, file=self.file, line=line, field=rule.title)

    def account(self) -> str:
        """How many rows were dropped, by which rules, and where first."""
        parts = [
            f"{rule.title} {tally.dropped:,} from line {tally.examples[0]}"
            for rule, tally in self.tallies.items()
            if tally.dropped
        ]
        return f"{self.rows_dropped:,} of {self.rows_in:,} rows dropped" + (
            f": {', '.join(parts)}" if parts else ""
        )

    @property
    def rows_dropped(self) -> int:
        """Rows left out, by whatever rule."""
        return sum(tally.dropped for tally in self.tallies.values())

    def as_json(self) -> dict[str, Any]:
        """The stable JSON form."""
        return {
            "file": str(self.file),
            "kind": self.kind,
            "pods": self.pods,
            "rows_in": self.rows_in,
            "rows_out": self.rows_out,
            "rows_dropped": self.rows_dropped,
            "windows_out": self.windows_out,
            "windows_filled": self.windows_filled,
            "rules": [
                {
                    "rule": rule.title,
                    "what": rule.words,
                    "repaired": tally.repaired,
                    "dropped": tally.dropped,
                    "first_lines": tally.examples,
                }
                for rule, tally in self.tallies.items()
            ],
        }

    def _note(self, rule: CleaningRule, lines: Lines) -> None:
        if self.strict:
            self.refuse(rule, lines, " (--strict)")
        self._examples(rule, lines)

    def _examples(self, rule: CleaningRule, lines: Lines) -> None:
        # The smallest line numbers, not the first told: which rows are judged together is chance.
        if len(lines):
            tally = self.tallies[rule]
            nearest = np.sort(lines)[:_EXAMPLES] if len(lines) > _EXAMPLES else lines
            tally.examples = sorted({*tally.examples, *(int(line) for line in nearest)})[:_EXAMPLES]
