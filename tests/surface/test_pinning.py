"""The comparison itself: it must see every loss, and no loss in an addition."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.surface.help_text import promises
from tests.surface.pinning import TORCH, lost, without_timings

PINNED = {"a": [1.0, {"b": "x"}], "c": None, "d": True, "n": float("nan")}
HELP = """usage: proreus x [-h] [OPTIONS] IN

╭─ positional arguments ─────────────╮
│ IN            A file. (required)   │
╰────────────────────────────────────╯
╭─ limits options ───────────────────╮
│ What may be asked.                 │
│ ────────────────────────────────── │
│ --most-bytes {None}|INT            │
│               At most; see (this). │
│               (default: None)      │
│ --learn, --no-learn                │
│               Or not. (default:    │
│               True)                │
╰────────────────────────────────────╯
"""


def test_additions_are_no_loss() -> None:
    assert lost(PINNED, {**PINNED, "a": [1.0 + 1e-12, {"b": "x", "more": 1}], "e": 5}) == []


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"a": [1.0 + 1e-6, {"b": "x"}]}, "/a/0"),
        ({"a": [1.0, {"b": "y"}]}, "/a/1/b"),
        ({"a": [1.0, {}]}, "/a/1/b: is gone"),
        ({"a": [1.0]}, "/a: 1 entries"),
        ({"c": 0}, "/c"),
        ({"d": 1}, "/d"),
        ({"n": 0.0}, "/n"),
    ],
)
def test_every_change_is_a_loss(change: dict[str, Any], place: str) -> None:
    (line,) = lost(PINNED, {**PINNED, **change})
    assert line.startswith(place)


def test_torch_may_round_otherwise() -> None:
    assert lost([1.0], [1.0 + 5e-7], TORCH) == [] != lost([1.0], [1.0 + 5e-7])


def test_measured_times_are_left_out_and_simulated_ones_are_not() -> None:
    content = {
        "seconds": 1,
        "decisions_per_s": 2,
        "plan_seconds": 3,
        "wait_mean": 4,
        "list": [{"created": 5}],
    }
    assert without_timings(content) == {"wait_mean": 4, "list": [{}]}


def test_a_help_text_is_read_with_a_frame_and_without() -> None:
    expected = {
        "IN": "(required)",
        "--most-bytes": "{None}|INT (default: None)",
        "--learn": "or --no-learn (default: True)",
    }
    assert promises(HELP) == expected
    assert promises(re.sub("[╭╮╰╯│─]", " ", HELP)) == expected
