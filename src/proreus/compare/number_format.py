"""How numbers are written for people. Tables, plots and the report ask here."""

from __future__ import annotations

from collections.abc import Sequence

from proreus.model.estimate import Estimate

NOTHING = "—"
"""Stands where there is no number to show."""
MINUS = "−"


def decimals_for(values: Sequence[float], unit: str) -> int:
    """Digits after the point for the numbers of one column: alike, and no more than tell something."""
    largest = max((abs(value) for value in values), default=0.0)
    if unit.startswith("%"):
        return 2
    if all(float(value).is_integer() for value in values):
        return 0
    if largest >= 1_000:
        return 0
    return 1 if largest >= 100 else 2


def number(value: float, decimals: int) -> str:
    """With thousands separators and a true minus sign; never "-0"."""
    text = f"{value:,.{decimals}f}"
    if text.startswith("-"):
        digits = text[1:]
        return MINUS + digits if digits.strip("0.,") else digits
    return text


def signed(value: float, decimals: int) -> str:
    """A difference: with its sign, also when positive."""
    text = number(value, decimals)
    return text if text.startswith(MINUS) or not text.strip("0.,") else f"+{text}"


def half_width(estimate: Estimate, decimals: int) -> str:
    """Half the interval, or a dash."""
    half = estimate.half
    return NOTHING if half is None else number(half, decimals)


def plus_minus(estimate: Estimate, decimals: int) -> str:
    """Mean and half interval."""
    return f"{number(estimate.mean, decimals)} ± {half_width(estimate, decimals)}"


def with_unit(text: str, unit: str) -> str:
    """A number and its unit; counts of nothing in particular stand alone."""
    return f"{text} {unit}" if unit else text


def listing(names: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
