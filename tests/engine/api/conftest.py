"""Doors that tests share: one with agents behind it, for kubectl and the official client."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.api.live import Live, as_up, live

_CONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: here, cluster: {{server: "{url}", certificate-authority: "{authority}"}}}}]
contexts: [{{name: here, context: {{cluster: here, user: me}}}}]
users: [{{name: me, user: {{token: "everybody-is-let-in-here"}}}}]
current-context: here
"""


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(as_up(tmp_path_factory.mktemp("tls")), agents=True) as door:
        yield door


class Kubectl:
    """The command, against one API, over TLS."""

    def __init__(self, program: str, home: Path, door: Live) -> None:
        self._program = program
        self._environment = {"HOME": str(home), "KUBECONFIG": str(home / "config"), "PATH": "/usr/bin:/bin"}
        assert door.options.authority is not None
        authority = door.options.authority.certificate
        (home / "config").write_text(_CONFIG.format(url=door.over_tls, authority=authority))

    def __call__(
        self,
        *arguments: str,
        text: str = "",
        fails: bool = False,
        may_fail: bool = False,
        timeout: float = 120,
    ) -> str:
        done = self.run(*arguments, given=text.encode(), timeout=timeout)
        message = (done.stdout + done.stderr).decode()
        assert may_fail or (done.returncode != 0) == fails, message
        return message

    def run(
        self, *arguments: str, given: bytes = b"", timeout: float = 120
    ) -> subprocess.CompletedProcess[bytes]:
        """A command to its end, however that is."""
        return subprocess.run(
            [self._program, *arguments],
            input=given,
            capture_output=True,
            timeout=timeout,
            env=self._environment,
            check=False,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A command that goes on."""
        return subprocess.Popen(
            [self._program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._environment,
        )

    def in_a_terminal(self, *arguments: str) -> tuple[subprocess.Popen[bytes], int]:
        """A command that goes on, and our end of the terminal that it runs in."""
        ours, theirs = os.openpty()
        try:
            started = subprocess.Popen(
                [self._program, *arguments],
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                env=self._environment,
                start_new_session=True,
            )
        finally:
            os.close(theirs)
        return started, ours


def _programs() -> list[str]:
    """`kubectl` of the path, and the ones that PROREUS_KUBECTL names, with colons between."""
    messages = os.environ.get("PROREUS_KUBECTL", "").split(":")
    return [one for one in dict.fromkeys([*messages, shutil.which("kubectl") or ""]) if one]


PROGRAMS = _programs() or [""]


@pytest.fixture(scope="package", params=PROGRAMS, ids=lambda one: one or "none")
def kubectl(
    request: pytest.FixtureRequest, cluster: Live, tmp_path_factory: pytest.TempPathFactory
) -> Kubectl:
    if not request.param:
        pytest.skip("there is no kubectl: install Debian's kubernetes-client, or name one by PROREUS_KUBECTL")
    return Kubectl(request.param, tmp_path_factory.mktemp("kubectl"), cluster)
