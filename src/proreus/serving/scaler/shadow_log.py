"""The log of what a policy in shadow would have done: one JSON object a line, and never more than so many."""

from __future__ import annotations

import logging
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from proreus.model.files import make_folder, open_private
from proreus.serving.scaler.controller import ScalingDecision
from proreus.serving.scaler.shadow_controller import ShadowStep

_log = logging.getLogger(__name__)


def before(path: Path) -> Path:
    """The file that was full before this one."""
    return path.with_name(f"{path.name}.1")


class ShadowLog:
    """Two files that take turns: FILE, and FILE.1 that was before it."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        self.path, self._most = path, most_bytes // 2
        self._lock = threading.Lock()
        make_folder(path.parent, private=True)
        self._file = open_private(path, "ab")

    def write(self, who: str, decided: ScalingDecision) -> None:
        """One decision."""
        line = msgspec.json.encode({"object": who, **entry(decided)}) + b"\n"
        with self._lock:
            try:
                if self._file.tell() + len(line) > self._most:
                    self._file.close()
                    self.path.replace(before(self.path))
                    self._file = open_private(self.path, "ab")
                self._file.write(line)
                self._file.flush()
            except OSError as error:  # a full disk is no reason not to scale
                _log.error("the shadow log cannot be written", extra={"fields": {"detail": str(error)}})

    def close(self) -> None:
        """No more."""
        with self._lock:
            self._file.close()


def shadow_entry(step: ShadowStep) -> dict[str, Any]:
    """What the policy holds in the shadow, and what has come of it since the last line."""
    return {
        "policy": step.policy,
        "gpus": step.gpus,
        "replicas": dict(step.replicas),
        "refused": step.refused,
        **{name: round(value, 3) for name, value in asdict(step.tally).items()},
    }


def entry(decided: ScalingDecision) -> dict[str, Any]:
    """A decision with what was seen and why."""
    entry: dict[str, Any] = {
        "at": decided.at,
        "replicas": dict(decided.replicas),
        "would": dict(decided.would),
        "by": decided.by,
        "reason": decided.reason,
        "why": decided.why,
    }
    if decided.shadow is not None:
        entry["shadow"] = shadow_entry(decided.shadow)
    if decided.look is None:
        return entry
    seen, met = decided.look.observation, decided.look.met
    entry["seen"] = {
        "pools": {
            pool.role: {
                "active": pool.active,
                "starting": [round(seconds, 1) for seconds in pool.starting],
                "draining": pool.draining,
                "waiting": pool.waiting,
                "running": pool.running,
                "kv_use": round(pool.kv_use, 4),
            }
            for pool in seen.pools
        },
        "requests_per_second": round(seen.traffic.requests, 3),
        "met": [round(share, 4) for share in (met.low, met.value, met.high)],
        "start_seconds": round(seen.start_seconds, 1),
        "unreadable": list(decided.look.unreadable[:8]),
    }
    return entry
