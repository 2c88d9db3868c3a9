"""Manifests of pods that really run: each notes its starts, and whether another runs that must not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.engine.faults.workloads import Object, deployment_of, job_of, pod_of
from tests.engine.runtimes.benches import IMAGE

_NOTE = """
exec 9>>"$NOTES/$ONLY.lock"
flock -n 9 || echo "$ONLY" >> "$NOTES/doubled"
echo "$ONLY" >> "$NOTES/starts"
"""
"""The lock is the kernel's: it goes with the last process that holds it, however that ends."""
_SERVE = _NOTE + "trap 'kill $!; exit 0' TERM\nsleep 100000 &\nwait $!\n"
_SUM = _NOTE + "sleep 0.3\n"
MARK, UID = "NOTES_OF", "POD_UID"
"""Variables of every container, by which its processes are found."""


class RealWork:
    """Pods whose notes lie in a folder of the machine."""

    operations: tuple[str, ...] = ("scale", "scale", "roll", "delete", "job", "pod", "pod", "alone", "note")
    most_replicas: int = 3

    def __init__(self, notes: Path) -> None:
        self.notes = notes

    def deployment(self, name: str, replicas: int) -> Object:
        """A service; those called alone must never have two pods at the same time."""
        return deployment_of(name, replicas, self.template({"app": name}, self.rolled(name, 0)))

    def job(self, name: str, completions: int) -> Object:
        """A short sum."""
        return job_of(name, completions, self.template({"job": name}, self.container(_SUM)))

    def pod(self, name: str) -> Object:
        """One that nobody owns: what ends in it begins anew in it."""
        return pod_of(name, self.template({"bare": name}, self.container(_SERVE)))

    def rolled(self, name: str, version: int) -> Object:
        """With another environment."""
        only = name if name.startswith("alone-") else ""
        return self.container(_SERVE, only, {"VERSION": str(version)})

    def container(self, script: str, only: str = "", variables: dict[str, str] | None = None) -> Object:
        """A container of a script; `only` names what may run but once at a time, by default the pod."""
        known = {MARK: str(self.notes), "ONLY": only or f"$({UID})", **(variables or {})}
        return {
            "name": "main",
            "image": IMAGE,
            "imagePullPolicy": "IfNotPresent",
            "command": ["/bin/sh", "-c", f'NOTES="$PROREUS_ROOT/notes"\n{script}'],
            "env": [
                {"name": UID, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
                *({"name": name, "value": value} for name, value in known.items()),
            ],
            "volumeMounts": [{"name": "notes", "mountPath": "/notes"}],
            "resources": {"requests": {"cpu": "5m", "memory": "8Mi"}},
        }

    def template(self, labels: dict[str, str], container: Object) -> Object:
        """Of pods that may write their notes."""
        notes: Any = {"name": "notes", "hostPath": {"path": str(self.notes), "type": "Directory"}}
        return {
            "metadata": {"labels": labels},
            "spec": {"containers": [container], "volumes": [notes], "terminationGracePeriodSeconds": 5},
        }

    def doubled(self) -> list[str]:
        """What ran twice at the same time."""
        path = self.notes / "doubled"
        return [f"{line}: ran twice at the same time" for line in _lines(path)]

    def starts(self) -> int:
        """How many containers began."""
        return len(_lines(self.notes / "starts"))


def _lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []
