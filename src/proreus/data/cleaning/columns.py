"""Finds the columns of a log by their common names, and the units that these names speak of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from proreus.data.cleaning.options import ColumnOptions, CpuUnit, MemUnit, TimeUnit
from proreus.model.errors import InputError

_NAMES = {
    "time": r"(time|timestamp|ts|date|datetime|created|created_at|start|start_time|at)",
    "pod": r"(pod|pod_name|podname|pod_id|container|container_name|instance|vmid)",
    "service": r"(service|service_name|servicename|app|application|deployment)",
    "cpu": r"(cpu|cpus|cpu_request|cpu_usage|request_cpu|req_cpu|cpu_used)",
    "mem": r"(mem|memory|mem_request|memory_request|mem_usage|memory_usage|request_mem|req_mem|mem_used)",
}
_UNITS = {
    "time": r"utc|s|sec|seconds|unix|ms|millis|us|micros|ns|nanos",
    "pod": "",
    "service": "",
    "cpu": r"cores|core|millicores|millicore|milli|m",
    "mem": r"bytes|byte|b|kib|ki|mib|mi|gib|gi",
}
_TIME: dict[str, TimeUnit] = {
    "s": "s", "sec": "s", "seconds": "s", "unix": "s", "ms": "ms", "millis": "ms",
    "us": "us", "micros": "us", "ns": "ns", "nanos": "ns",
}  # fmt: skip
_CPU: dict[str, CpuUnit] = {
    "cores": "cores", "core": "cores", "millicores": "millicores", "millicore": "millicores",
    "milli": "millicores", "m": "millicores",
}  # fmt: skip
_MEM: dict[str, MemUnit] = {
    "bytes": "bytes", "byte": "bytes", "b": "bytes", "kib": "kib", "ki": "kib", "mib": "mib", "mi": "mib",
    "gib": "gib", "gi": "gib",
}  # fmt: skip


@dataclass(frozen=True)
class LogColumns:
    """Where a row keeps what."""

    time: int
    cpu: int
    mem: int
    name: int | None
    """The column of the pod or the service; None: the log is anonymous."""
    named: Literal["pod", "service", "none"]
    time_unit: TimeUnit | None
    """None: to be told from the first time."""
    cpu_unit: CpuUnit
    mem_unit: MemUnit


def find_columns(path: Path, header: Sequence[str], options: ColumnOptions, pods: int) -> LogColumns:
    """The columns of `header`; with `pods` to hand requests to, a service goes before a pod."""
    time, time_word = _find(path, header, "time", options.time_column)
    cpu, cpu_word = _find(path, header, "cpu", options.cpu_column)
    mem, mem_word = _find(path, header, "mem", options.mem_column)
    if time is None or cpu is None or mem is None:
        missing = "time" if time is None else "cpu" if cpu is None else "mem"
        raise InputError(
            f"no such column; the header is {','.join(header)[:80]!r} (name it with --{missing}-column)",
            file=path, line=1, field=missing,
        )  # fmt: skip
    name, named = _named(path, header, options, pods)
    return LogColumns(
        time=time,
        cpu=cpu,
        mem=mem,
        name=name,
        named=named,
        time_unit=_TIME.get(time_word) if options.time_unit == "auto" else options.time_unit,
        cpu_unit=_CPU.get(cpu_word, "cores") if options.cpu_unit == "auto" else options.cpu_unit,
        mem_unit=_MEM.get(mem_word, "bytes") if options.mem_unit == "auto" else options.mem_unit,
    )


def _named(
    path: Path, header: Sequence[str], options: ColumnOptions, pods: int
) -> tuple[int | None, Literal["pod", "service", "none"]]:
    pod, _ = _find(path, header, "pod", options.pod_column)
    service, _ = _find(path, header, "service", options.service_column)
    if pod is not None and not pods:
        return pod, "pod"
    if service is not None:
        return service, "service"
    return None, "none"


def _find(path: Path, header: Sequence[str], what: str, wanted: str) -> tuple[int | None, str]:
    """(position, unit in the name) of a column; the position is None where no name fits."""
    pattern = re.compile(_NAMES[what] + (f"(?:_({_UNITS[what]}))?" if _UNITS[what] else "()"))
    matches = [
        (position, match[2] or "")
        for position, name in enumerate(header)
        if (match := pattern.fullmatch(name.lower().replace(" ", "_").replace("-", "_")))
    ]
    if wanted != "auto":
        if wanted not in header:
            raise InputError(
                f"no such column; the header is {','.join(header)[:80]!r}", file=path, line=1, field=wanted
            )
        position = list(header).index(wanted)
        return position, dict(matches).get(position, "")
    if len(matches) > 1:
        names = ", ".join(header[position] for position, _ in matches)
        raise InputError(
            f"several columns may hold it ({names}): name one with --{what}-column",
            file=path, line=1, field=what,
        )  # fmt: skip
    return matches[0] if matches else (None, "")
