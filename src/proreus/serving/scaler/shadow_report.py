"""What a scaler's shadow log comes to: what the policy would have saved, and how sure that is.

What was held is counted from what was seen; what the policy would have held and kept is an estimate, whose
error is told by what the same model says of the replicas that were really there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import msgspec

from proreus.model.errors import InputError
from proreus.serving.scaler.shadow_log import before
from proreus.worlds.inference.state.shadow_fleet import ShadowTally

_LONGEST_LINE = 1024 * 1024
_MOST = 1e15
_SHORT = 3_600.0
"""Seconds in shadow below which a report says that they are few."""


class _ShadowLine(msgspec.Struct):
    """The part of a line that is added up; see `shadow_log.shadow_entry`."""

    policy: str
    gpus: int
    seconds: float
    real: float
    would: float
    ended: float
    met: float
    requests: float
    would_met: float
    modelled_met: float
    refused: str = ""


class _Line(msgspec.Struct):
    object: str
    at: float
    shadow: _ShadowLine | None = None


_decoder = msgspec.json.Decoder(_Line)
_SUMS = tuple(field.name for field in fields(ShadowTally))


@dataclass
class ObjectReport:
    """One scaled object, added up."""

    policies: Counter[str] = field(default_factory=Counter)
    first: float = 0.0
    last: float = 0.0
    looks: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Looks at which the policy did not decide, by reason."""
    tally: ShadowTally = field(default_factory=ShadowTally)
    gpu_hours: tuple[float, float] = (0.0, 0.0)
    """Held really, and by the policy."""

    @property
    def measured(self) -> float:
        """Share of requests served as promised, really."""
        return _share(self.tally.met, self.tally.ended)

    @property
    def estimated(self) -> float:
        """The same, had the policy decided: as the model says."""
        return _share(self.tally.would_met, self.tally.requests)

    @property
    def modelled(self) -> float:
        """What the model says of what was measured."""
        return _share(self.tally.modelled_met, self.tally.requests)

    def to_json(self) -> dict[str, Any]:
        """For tools."""
        really, would = self.gpu_hours
        return {
            "policy": ", ".join(self.policies),
            "hours": round(self.tally.seconds / 3600, 4),
            "looks": self.looks,
            "refused": dict(self.refused),
            "gpu_hours": {"really": round(really, 3), "would": round(would, 3)},
            "saved": {
                "gpu_hours": round(really - would, 3),
                "share": round(1 - would / really, 5) if really > 0 else 0.0,
            },
            "served_as_promised": {
                "measured": round(self.measured, 5),
                "would_estimated": round(self.estimated, 5),
                "model_of_measured": round(self.modelled, 5),
                "model_error": round(self.modelled - self.measured, 5),
            },
        }


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 1.0


def read_log(path: Path) -> Iterator[tuple[str, float, _ShadowLine]]:
    """(object, moment, what is added up) of every line, the oldest first; a last line that was cut is left
    out."""
    paths = [file for file in (before(path), path) if file.is_file()]
    if not paths:
        raise InputError("there is no such log: proreus serve scaler --shadow-log FILE", file=path)
    for file in paths:
        with file.open("rb") as lines:
            number = 0
            while line := lines.readline(_LONGEST_LINE):
                number += 1
                if not line.endswith(b"\n"):
                    if len(line) == _LONGEST_LINE:
                        raise InputError("a line is far too long", file=file, line=number)
                    break
                try:
                    read = _decoder.decode(line)
                except msgspec.MsgspecError as error:
                    says = f"not a line of a scaler's shadow log ({error})"
                    raise InputError(says, file=file, line=number) from None
                if read.shadow is not None:
                    if not all(0.0 <= getattr(read.shadow, name) <= _MOST for name in (*_SUMS, "gpus")):
                        raise InputError("a number is outside what can be", file=file, line=number)
                    yield read.object, read.at, read.shadow


def add_up(lines: Iterable[tuple[str, float, _ShadowLine]], gpus: int = 0) -> dict[str, ObjectReport]:
    """By object; gpus: of a replica, where the log does not know better (0: as the log has it)."""
    reports: dict[str, ObjectReport] = {}
    for name, at, line in lines:
        report = reports.get(name)
        if report is None:
            report = reports[name] = ObjectReport(first=at)
        report.last = at
        report.looks += 1
        report.policies[line.policy] += 1
        if line.refused:
            report.refused[line.refused] += 1
        report.tally = ShadowTally(
            **{part: getattr(report.tally, part) + getattr(line, part) for part in _SUMS}
        )
        each = (gpus or line.gpus) / 3600.0
        report.gpu_hours = (
            report.gpu_hours[0] + line.real * each,
            report.gpu_hours[1] + line.would * each,
        )
    return reports


def told(reports: Mapping[str, ObjectReport], price: float = 0.0) -> str:
    """For people; price: of a GPU for an hour, 0: nobody knows."""
    if not reports:
        return "No object has been in shadow since the log began.\n"
    return "\n".join(_told(name, report, price) for name, report in reports.items())


def _told(name: str, report: ObjectReport, price: float) -> str:
    really, would = report.gpu_hours
    saved = really - would
    share = f" ({abs(saved) / really:.1%})" if really > 0 else ""
    lines = [
        f"{name}: {report.tally.seconds / 3600:,.2f} hours in shadow, {report.looks:,} looks",
        f"  held really          {really:14,.2f} GPU-hours",
        f"  would have been held {would:14,.2f} GPU-hours, by {', '.join(report.policies)} (estimated)",
        f"  {'less' if saved >= 0 else 'more'}                 {abs(saved):14,.2f} GPU-hours{share}",
    ]
    if price:
        lines.append(f"  at ${price:g} a GPU and hour: ${abs(saved) * price:,.2f}")
    lines += [
        "Requests served as promised:",
        f"  really, as measured  {report.measured:14.2%}",
        f"  would have been      {report.estimated:14.2%} (estimated)",
        f"  The estimate is of a fluid model. Of the real replicas it says {report.modelled:.2%},",
        f"  so it errs by {100 * (report.modelled - report.measured):+.2f} points there.",
    ]
    if report.tally.seconds < _SHORT:
        lines.append("This is less than an hour: too short to judge by, what it began with decides.")
    if report.refused:
        counted = ", ".join(f"{why} {count:,}" for why, count in report.refused.most_common())
        lines.append(f"The policy did not decide at some looks, and kept what it had: {counted}")
    return "\n".join(lines) + "\n"
