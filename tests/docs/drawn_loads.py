"""The picture of twelve loads that the curriculum of the world `inference` draws, and of those kept back.

    python -m tests.docs.drawn_loads      # `make loads`: writes docs/img/drawn-loads.svg anew

They are what `train inference --algo reserve` plays (`training.fluid_curriculum.drawn_episodes`), drawn from
one seed, so that the file is the same every time.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import numpy as np

from proreus.compare.report.charts import Frame, ticks
from proreus.kernels.arrays import F64
from proreus.worlds.inference.datasets.load_shapes import KEPT_BACK, TRAINED
from proreus.worlds.inference.state.fluid import STEP
from proreus.worlds.inference.training.fluid_curriculum import FluidEpisode, drawn_episodes
from tests.docs.kept import ROOT

PATH = ROOT / "docs" / "img" / "drawn-loads.svg"
PANELS, SEED = 12, 26
_COLUMNS = 3
_WIDTH, _HEIGHT, _TITLE, _FOOT = 262.0, 138.0, 34.0, 20.0
_BIN = 30.0
"""Seconds over which requests are counted: what they are drawn from changes every ten, and chance is left."""
_STYLE = """
text { font: 11px system-ui, sans-serif; fill: #374151; }
.name { font-weight: 600; }
.note { fill: #6b7280; }
.grid { stroke: #d1d5db; stroke-width: 0.5; }
.start { fill: #6b7280; fill-opacity: 0.16; }
.line { fill: none; stroke: #0072b2; stroke-width: 1.3; }
.kept .line { stroke: #d55e00; }
.kept .name { fill: #d55e00; }
rect.page { fill: #fff; }
@media (prefers-color-scheme: dark) {
  text { fill: #d1d5db; } .note { fill: #9ca3af; } .grid { stroke: #374151; } rect.page { fill: #111827; }
  .line { stroke: #4aa8e8; } .kept .line { stroke: #f0813a; } .kept .name { fill: #f0813a; }
}
"""


@dataclass(frozen=True)
class Panel:
    """One load."""

    family: str
    kept_back: bool
    start_seconds: float
    taken_away: bool
    """Whether instances are taken away while it comes."""
    rates: F64
    """[bins] requests a second"""

    @property
    def peak(self) -> float:
        """Over the mean."""
        return float(self.rates.max() / self.rates.mean())


def panels() -> list[Panel]:
    """Twelve: families that are trained on, then those that are not."""
    families = (*TRAINED[: PANELS - len(KEPT_BACK)], *KEPT_BACK)
    episodes = drawn_episodes(PANELS, SEED, families)
    made = [_panel(families[number % len(families)], episode) for number, episode in enumerate(episodes)]
    return sorted(made, key=lambda panel: panel.kept_back)


def _panel(family: str, episode: FluidEpisode) -> Panel:
    setting, requests = episode.setting, episode.load.requests
    each = round(_BIN / STEP)
    whole = requests[: requests.size // each * each].reshape(-1, each)
    return Panel(
        family,
        family in KEPT_BACK,
        setting.start_seconds,
        setting.loss_rate > 0.0,
        np.asarray(whole.sum(axis=1) / _BIN),
    )


def picture(shown: list[Panel]) -> str:
    """As SVG."""
    rows = -(-len(shown) // _COLUMNS)
    width, height = _COLUMNS * _WIDTH, rows * _HEIGHT
    drawn = "".join(
        _drawn(panel, place % _COLUMNS * _WIDTH, place // _COLUMNS * _HEIGHT)
        for place, panel in enumerate(shown)
    )
    label = "Twelve drawn loads: requests a second over minutes"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{label}"><style>{_STYLE}</style>'
        f'<rect class="page" width="{width:g}" height="{height:g}"/>{drawn}</svg>\n'
    )


def _drawn(panel: Panel, left: float, top: float) -> str:
    minutes = panel.rates.size * _BIN / 60.0
    box = (left + 30, left + _WIDTH - 10, top + _TITLE, top + _HEIGHT - _FOOT)
    frame = Frame(*box, (0.0, minutes), (0.0, 1.08 * float(panel.rates.max())))
    held, away = ", held out" if panel.kept_back else "", ", spot" if panel.taken_away else ""
    grid = "".join(
        f'<line class="grid" x1="{frame.left:.1f}" x2="{frame.right:.1f}" '
        f'y1="{frame.y(mark):.1f}" y2="{frame.y(mark):.1f}"/>'
        f'<text class="note" x="{frame.left - 4:.1f}" y="{frame.y(mark) + 4:.1f}" text-anchor="end">'
        f"{mark:g}</text>"
        for mark in ticks(*frame.y_range, about=3)
    ) + "".join(
        f'<text class="note" x="{frame.x(mark):.1f}" y="{frame.bottom + 13:.1f}" text-anchor="middle">'
        f"{mark:g} min</text>"
        for mark in ticks(*frame.x_range, about=3)[1:]
        if frame.x(mark) < frame.right - 12
    )
    at = (np.arange(panel.rates.size) + 0.5) * _BIN / 60.0
    points = " ".join(
        f"{frame.x(float(moment)):.1f},{frame.y(float(rate)):.1f}"
        for moment, rate in zip(at, panel.rates, strict=True)
    )
    start = frame.x(min(panel.start_seconds / 60.0, minutes)) - frame.left
    says = f"start {panel.start_seconds:.0f} s, peak {panel.peak:.1f} x mean{away}"
    return (
        f'<g class="{"kept" if panel.kept_back else "trained"}">'
        f'<text class="name" x="{left + 10:.1f}" y="{top + 14:.1f}">{escape(panel.family)}{held}</text>'
        f'<text class="note" x="{left + 10:.1f}" y="{top + 28:.1f}">{says}</text>'
        f'<rect class="start" x="{frame.left:.1f}" y="{frame.top:.1f}" width="{start:.1f}" '
        f'height="{frame.bottom - frame.top:.1f}"/>{grid}'
        f'<polyline class="line" points="{points}"/></g>'
    )


def main() -> None:
    """Write the picture."""
    PATH.write_text(picture(panels()))


if __name__ == "__main__":
    main()
