"""What a user may decide about the cleaning of a request log or a monitor export."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from proreus.model.errors import UsageError

MICROSECONDS = 1_000_000
_LONGEST_FILL = 100_000

Kind = Literal["requests", "monitor"]
TimeUnit = Literal["iso", "s", "ms", "us", "ns"]
CpuUnit = Literal["cores", "millicores"]
MemUnit = Literal["bytes", "kib", "mib", "gib"]


@dataclass(frozen=True)
class ColumnOptions:
    """Which columns hold what, and in which unit; "auto" goes by the common names and what they end in."""

    time_column: str = "auto"
    """The column of the time (time, timestamp, time_utc, ts, date, ...)."""
    pod_column: str = "auto"
    """The column of the pod (pod, pod_name, container, instance, ...)."""
    service_column: str = "auto"
    """The column of the service (service, service_name, app, ...)."""
    cpu_column: str = "auto"
    """The column of the CPU (cpu, cpu_cores, cpu_request, ...)."""
    mem_column: str = "auto"
    """The column of the memory (mem, memory, mem_bytes, ...)."""
    time_unit: Literal["auto", "iso", "s", "ms", "us", "ns"] = "auto"
    """How times are written; auto: by the name of the column, else by the first time."""
    cpu_unit: Literal["auto", "cores", "millicores"] = "auto"
    """Unit of CPU numbers without a suffix; naming one also forbids guessing by magnitude."""
    mem_unit: Literal["auto", "bytes", "kib", "mib", "gib"] = "auto"
    """Unit of memory numbers without a suffix; naming one also forbids guessing by magnitude."""


@dataclass(frozen=True)
class RepairOptions:
    """How each fault is met."""

    strict: bool = False
    """Refuse the file at its first fault instead of repairing it."""
    bad_values: Literal["drop", "zero", "refuse"] = "drop"
    """Rows whose cpu or mem is missing, no number, not finite or negative."""
    duplicates: Literal["drop", "keep", "refuse"] = "drop"
    """Rows that repeat an earlier line in full."""
    same_time: Literal["auto", "keep", "first", "last", "refuse"] = "auto"
    """Different rows of one pod at one time; auto: all requests are kept, of monitor samples the last."""
    units: Literal["auto", "suffix", "magnitude"] = "auto"
    """Unit mix-ups are found by suffix alone, or by magnitude too; auto: by magnitude in monitors only."""
    late: float = 60.0
    """Seconds that a row may come late and is still sorted into its place; more is a clock jump."""
    clock: Literal["refuse", "rebase", "drop"] = "refuse"
    """Clock jumps: refuse the file, move the rows after the jump, or drop the late rows. A single row far
    ahead of its neighbours is refused, moved or dropped alone."""
    most_dropped: float = 0.5
    """The share of the rows that may be dropped: this much or more refuses the file; 1: drop what must be."""
    gaps: Literal["fill", "skip", "refuse"] = "fill"
    """Missing windows: fill them (no requests; a monitor's last value), leave them out, or refuse."""
    longest_gap: float = 3600.0
    """Seconds of the longest gap that is filled; a longer one is refused."""


@dataclass(frozen=True)
class CleaningOptions:
    """Everything that decides the result of a cleaning."""

    window: float = 300.0
    """Seconds of a window."""
    kind: Literal["auto", "requests", "monitor"] = "auto"
    """Requests are summed over a window, monitor samples averaged; auto: even steps are a monitor's."""
    pods: int = 0
    """Hand the requests of each service (or of a log without names) to this many pods by round robin."""
    most_held: int = 1_000_000
    """Rows that may wait for their window to close; more is refused, so that memory stays bounded."""
    columns: ColumnOptions = field(default_factory=ColumnOptions)
    repairs: RepairOptions = field(default_factory=RepairOptions)

    def __post_init__(self) -> None:
        # Whole seconds would do for people; a floor of one second keeps window numbers small enough to pack.
        if not 1 <= self.window <= 366 * 86_400:
            raise UsageError(f"--window {self.window:g} is not between 1 second and a year")
        if not 0 <= self.pods <= 100_000:
            raise UsageError(f"--pods {self.pods} is not between 0 and 100000")
        if self.most_held < 1:
            raise UsageError(f"--most-held {self.most_held} is not positive")
        if not 0 <= self.repairs.late <= 366 * 86_400:
            raise UsageError(f"--late {self.repairs.late:g} is not between 0 seconds and a year")
        if not 0 <= self.repairs.most_dropped <= 1:
            raise UsageError(f"--most-dropped {self.repairs.most_dropped:g} is not a share between 0 and 1")
        if not 0 <= self.repairs.longest_gap <= _LONGEST_FILL * self.window:
            raise UsageError(
                f"--longest-gap {self.repairs.longest_gap:g} is not between 0 and {_LONGEST_FILL} windows"
            )

    @property
    def window_us(self) -> int:
        """The window in microseconds."""
        return round(self.window * MICROSECONDS)

    @property
    def late_us(self) -> int:
        """The lateness that is sorted out, in microseconds."""
        return round(self.repairs.late * MICROSECONDS)
