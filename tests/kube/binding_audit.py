"""What an API server's own audit log says of bindings: who asked for which pod, and how it ended."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  verbs: [create]
  resources: [{group: "", resources: ["pods/binding"]}]
- level: None
"""


class BindingAudit:
    """Flags for an API server, and what it wrote."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._policy, self._log = folder / "audit-policy.yaml", folder / "audit.log"
        self._policy.write_text(_POLICY)

    @property
    def flags(self) -> tuple[str, ...]:
        """Of kube-apiserver."""
        return f"--audit-policy-file={self._policy}", f"--audit-log-path={self._log}"

    def _events(self) -> Iterator[dict[str, Any]]:
        for line in self._log.read_text().splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue  # the server was killed while it wrote

    def codes(self) -> dict[str, Counter[int]]:
        """By pod (namespace/name): how its bindings ended, by HTTP code."""
        codes: dict[str, Counter[int]] = {}
        for event in self._events():
            about = event["objectRef"]
            code = (event.get("responseStatus") or {}).get("code", 0)
            codes.setdefault(f"{about['namespace']}/{about['name']}", Counter())[code] += 1
        return codes

    def conflicts(self) -> list[str]:
        """What the server answered to bindings that it refused with 409.

        A binding whose client died is a conflict for the server, too, whether it was stored or not: its
        message says that the request was cancelled.
        """
        answers = [event.get("responseObject") or {} for event in self._events()]
        return [str(answer.get("message")) for answer in answers if answer.get("code") == 409]

    def totals(self) -> Counter[int]:
        """All of them."""
        return sum(self.codes().values(), Counter())
