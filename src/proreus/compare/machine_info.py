"""On what machine and with what software a comparison ran: for the head of the report."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from proreus.workers.cores import available_cores


def describe_machine() -> str:
    """Processor, cores, system and the versions that numbers may depend on."""
    parts = [_processor(), f"{available_cores()} cores", platform.system()]
    parts.append(f"Python {platform.python_version()}")
    parts += [f"{name} {version}" for name in ("numpy", "numba", "proreus") if (version := _version(name))]
    return ", ".join(part for part in parts if part)


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    """Its version; "" where it runs from a source tree without being installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
