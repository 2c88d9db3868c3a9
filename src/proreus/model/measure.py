"""What a run is judged by: a figure with its unit, its better direction and the words people read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """A figure a run is judged by; a world lists its own, in the order in which they are shown."""

    name: str
    unit: str
    better: str
    """"higher" or "lower"."""
    title: str = ""
    """In words; "": the name."""
    short: str = ""
    """In a word or two, for the head of a narrow column; "": the name."""

    @property
    def in_words(self) -> str:
        """The measure in words."""
        return self.title or self.name.replace("_", " ")

    @property
    def in_short(self) -> str:
        """The measure in a word or two."""
        return self.short or self.name.replace("_", " ")


def by_name(*listed: Measure) -> dict[str, Measure]:
    """The measures of a world by name."""
    return {measure.name: measure for measure in listed}
