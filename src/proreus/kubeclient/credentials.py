"""Who asks: a token that stands, one in a file that is renewed, or what a program of the user's prints."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from proreus.model.errors import InputError, WorkError

_READ_AGAIN = 60.0
"""Seconds for which a token from a file is used; a Pod's lives for ten minutes at least."""
_PLUGIN_SECONDS = 30.0
_EARLY = 30.0
"""Seconds before its end at which a credential is asked for anew."""
_LONGEST = 1 << 20


class Credentials(Protocol):
    """What is sent along with every request."""

    async def header(self) -> str:
        """The value of `Authorization`; "": none."""
        ...

    async def certificate(self) -> tuple[bytes, bytes] | None:
        """A client certificate that comes with them."""
        ...

    def refused(self) -> bool:
        """The server does not know them; whether it is worth asking for others and trying again."""
        ...


@dataclass(frozen=True)
class StaticToken:
    """A token that stands in the configuration."""

    token: str = field(repr=False)
    scheme: str = "Bearer"

    async def header(self) -> str:
        """As it stands."""
        return f"{self.scheme} {self.token}" if self.token else ""

    async def certificate(self) -> None:
        """None comes with a token."""

    def refused(self) -> bool:
        """There is no other."""
        return False


@dataclass(eq=False)
class TokenFile:
    """A token in a file that somebody else writes anew before it ends."""

    path: Path
    clock: Callable[[], float] = time.monotonic
    _token: str = field(default="", repr=False)
    _read: float = -1e9

    def check(self) -> None:
        """An InputError where there is none."""
        try:
            token = self.path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot be read: {error}", file=self.path) from error
        if not token or any(character.isspace() for character in token):
            raise InputError("there is no token in it", file=self.path)
        self._token, self._read = token, self.clock()

    async def header(self) -> str:
        """The token of this minute; where the file cannot be read just now, the one before it."""
        if self.clock() - self._read >= _READ_AGAIN:
            try:
                self.check()
            except InputError:
                if not self._token:
                    raise
        return f"Bearer {self._token}"

    async def certificate(self) -> None:
        """None comes with a token."""

    def refused(self) -> bool:
        """The file may hold a newer one."""
        self._read = -1e9
        return True


@dataclass(eq=False)
class ExecPlugin:
    """A program that prints an ExecCredential (aws, gcloud, kubelogin); asked again when that ends."""

    command: tuple[str, ...]
    api_version: str
    environment: Mapping[str, str] = field(repr=False)
    cluster: Mapping[str, str] | None = None
    """What is told of the cluster, where the plugin wants that."""
    hint: str = ""
    """How to install it, in the words of whoever wrote the kubeconfig."""
    clock: Callable[[], float] = time.time
    _header: str = field(default="", repr=False)
    _certificate: tuple[bytes, bytes] | None = field(default=None, repr=False)
    _ends: float = -1.0
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def header(self) -> str:
        """The token that the program printed, while it is good."""
        await self._ensure()
        return self._header

    async def certificate(self) -> tuple[bytes, bytes] | None:
        """The certificate that the program printed, while it is good."""
        await self._ensure()
        return self._certificate

    def refused(self) -> bool:
        """The program may print another."""
        asked = self._ends >= 0
        self._ends = -1.0
        return asked

    async def _ensure(self) -> None:
        async with self._asking:
            if self.clock() >= self._ends - _EARLY:
                self._take(await self._ask())

    async def _ask(self) -> dict[str, Any]:
        spec: dict[str, Any] = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = dict(self.cluster)
        info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        environment = {**self.environment, "KUBERNETES_EXEC_INFO": json.dumps(info)}
        name = self.command[0]
        try:
            process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment,
            )
        except OSError as error:
            hint = f"; {self.hint}" if self.hint else ""
            raise WorkError(f"credential plugin {name}: {error.strerror}{hint}") from error
        try:
            async with asyncio.timeout(_PLUGIN_SECONDS):
                out, err = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise WorkError(f"credential plugin {name}: no answer within {_PLUGIN_SECONDS:g} s") from None
        if process.returncode:
            why = " ".join(err.decode(errors="replace").split())[:300]
            raise WorkError(f"credential plugin {name} failed with {process.returncode}: {why}")
        if len(out) > _LONGEST:
            raise WorkError(f"credential plugin {name}: it printed {len(out)} bytes")
        try:
            printed = json.loads(out)
            status = printed["status"]
        except (ValueError, TypeError, KeyError):
            raise WorkError(f"credential plugin {name}: it printed no ExecCredential with a status") from None
        if printed.get("apiVersion") != self.api_version:
            raise WorkError(
                f"credential plugin {name}: apiVersion {printed.get('apiVersion')!r}, "
                f"not {self.api_version!r}"
            )
        return dict(status)

    def _take(self, status: dict[str, Any]) -> None:
        token = status.get("token") or ""
        pair = status.get("clientCertificateData"), status.get("clientKeyData")
        if not token and not all(pair):
            raise WorkError(f"credential plugin {self.command[0]}: neither token nor certificate")
        self._header = f"Bearer {token}" if token else ""
        self._certificate = (pair[0].encode(), pair[1].encode()) if pair[0] and pair[1] else None
        ends = status.get("expirationTimestamp")
        try:
            self._ends = datetime.fromisoformat(ends).timestamp() if ends else float("inf")
        except ValueError:
            raise WorkError(
                f"credential plugin {self.command[0]}: expirationTimestamp {ends!r} is no time"
            ) from None
        if (
            self._ends - _EARLY <= self.clock()
        ):  # so short-lived that "early" is always: use it while it is good
            self._ends += _EARLY
