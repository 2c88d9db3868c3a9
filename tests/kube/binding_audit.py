"""What an API server's own audit log says of bindings: who asked for which pod, and how it ended."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
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

    def codes(self) -> dict[str, Counter[int]]:
        """By pod (namespace/name): how its bindings ended, by HTTP code."""
        codes: dict[str, Counter[int]] = {}
        for line in self._log.read_text().splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue  # the server was killed while it wrote
            about = event["objectRef"]
            code = (event.get("responseStatus") or {}).get("code", 0)
            codes.setdefault(f"{about['namespace']}/{about['name']}", Counter())[code] += 1
        return codes

    def totals(self) -> Counter[int]:
        """All of them."""
        return sum(self.codes().values(), Counter())
