"""A run that is watched: every frame in a terminal, the last alone elsewhere."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from proreus.cli.live_screen import screen

FRAMES = [[f"frame {number}", "[b]bars ▕█▏"] for number in range(4)]


def shown(*, terminal: bool, rate: float, frames: list[list[str]]) -> str:
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=40, emoji=False, markup=False)
    with screen(console, rate) as show:
        for lines in frames:
            show(lines)
    return text.getvalue()


def test_a_terminal_sees_every_frame_in_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    text = shown(terminal=True, rate=20.0, frames=FRAMES)
    places = [text.index(f"frame {number}") for number in range(4)]
    assert places == sorted(places) and pauses == [0.05] * 4


def test_a_pipe_gets_the_last_frame_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(seconds: float) -> None:
        raise AssertionError(f"waited {seconds} s for nobody")

    monkeypatch.setattr(time, "sleep", never)
    assert shown(terminal=False, rate=0.001, frames=FRAMES) == "frame 3\n[b]bars ▕█▏\n"
    assert shown(terminal=False, rate=1.0, frames=[]) == ""
