"""Who asks: bearer tokens from a file, each with a name and a role."""

from __future__ import annotations

import hashlib
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from urllib.parse import unquote_to_bytes

from proreus.engine.api.server.status import Unauthorized
from proreus.engine.objects.errors import TooManyRequests
from proreus.httpserver.rate_limit import Buckets
from proreus.model.errors import InputError
from proreus.model.files import read_regular

_SHORTEST_TOKEN, _LONGEST_TOKEN = 16, 1024
_MOST_TOKENS = 10_000
_WRONG_TOKENS, _WRONG_PER_SECOND = 20.0, 1.0
"""Wrong tokens that a client may try at once, and how fast it may go on trying."""
_CUT = b"[token]"
_MOST_ESCAPES = 4


class Role(Enum):
    """What somebody may do: see `authorization`."""

    ADMIN = "admin"
    AGENT = "agent"
    VIEWER = "viewer"


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody."""

    name: str
    role: Role
    token_begin: bytes = field(default=b"", compare=False, repr=False)
    """The digest of the first bytes of the token, by which logs are kept free of it; b"": not known."""
    token_length: int = field(default=0, compare=False, repr=False)

    @property
    def groups(self) -> list[str]:
        """As Kubernetes' reviews tell of them."""
        return [f"proreus:{self.role.value}", "system:authenticated"]


ON_THIS_MACHINE = Identity("proreus:loopback", Role.ADMIN)
"""Whoever reaches a door on loopback that has no tokens."""


def read_tokens(path: Path) -> Mapping[bytes, Identity]:
    """The identities of a file, by the digest of their token.

    A line each: `token,name,role`; empty lines and those that begin with # count for nothing. A file that
    other users of the machine may read is refused.
    """
    try:
        text = read_regular(path)
        mode = path.stat().st_mode
    except OSError as error:
        raise InputError(f"the tokens cannot be read: {error.strerror}", file=path) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError(
            "other users of this machine may read the tokens; chmod 600 keeps them secret", file=path
        )
    identities: dict[bytes, Identity] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith(b"#"):
            continue
        token, identity = _read_line(line, path, number)
        digest = hashlib.sha256(token).digest()
        if digest in identities:
            raise InputError("the token stands there twice", file=path, line=number)
        identities[digest] = identity
        if len(identities) > _MOST_TOKENS:
            raise InputError(f"there are more than {_MOST_TOKENS} tokens", file=path, line=number)
    if not identities:
        raise InputError("there is no token in it; a line is `token,name,role`", file=path)
    return identities


def _read_line(line: bytes, path: Path, number: int) -> tuple[bytes, Identity]:
    parts = [part.strip() for part in line.split(b",")]
    if len(parts) != 3:
        raise InputError("a line is `token,name,role`", file=path, line=number)
    token, name, role = parts
    if not _SHORTEST_TOKEN <= len(token) <= _LONGEST_TOKEN:
        raise InputError(
            f"a token has {_SHORTEST_TOKEN} to {_LONGEST_TOKEN} characters",
            file=path,
            line=number,
            field="token",
        )
    if not all(33 <= byte <= 126 for byte in token + name) or not name:
        raise InputError(
            "tokens and names are made of visible ASCII characters", file=path, line=number, field="name"
        )
    try:
        known = Role(role.decode("ascii", "replace"))
    except ValueError:
        known_roles = ", ".join(role.value for role in Role)
        raise InputError(f"is none of {known_roles}", file=path, line=number, field="role") from None
    begin = hashlib.sha256(token[:_SHORTEST_TOKEN]).digest()
    return token, Identity(name.decode(), known, begin, len(token))


class Authenticator:
    """Tells who asks, by the header `authorization`."""

    def __init__(self, tokens: Mapping[bytes, Identity] | None, tries: Buckets) -> None:
        """tokens: None where everybody is let in, which only a door on loopback may do."""
        self._tokens, self._tries = tokens, tries
        known = (tokens or {}).values()
        self._begins = {
            identity.token_begin: identity.token_length for identity in known if identity.token_begin
        }

    @classmethod
    def of(
        cls, tokens: Mapping[bytes, Identity] | None, clock: Callable[[], float] = time.monotonic
    ) -> Authenticator:
        """With the usual patience for wrong tokens."""
        return cls(tokens, Buckets(_WRONG_TOKENS, _WRONG_PER_SECOND, clock))

    def identify(self, authorization: bytes, client: str) -> Identity:
        """Who it is; `Unauthorized` where nobody knows."""
        if self._tokens is None:
            return ON_THIS_MACHINE
        scheme, _, token = authorization.partition(b" ")
        if scheme.lower() == b"bearer":
            # Looked up by its digest, so that the time it takes tells nothing of how near a wrong one was.
            identity = self._tokens.get(hashlib.sha256(token.strip()).digest())
            if identity is not None:
                return identity
        if not self._tries.take(client):
            raise TooManyRequests(f"too many wrong tokens; {_WRONG_PER_SECOND:g} a second can be tried")
        raise Unauthorized("Unauthorized")

    def without_tokens(self, text: bytes) -> str:
        """For logs: what a client has sent, but for tokens, wherever in it they stand and however escaped."""
        quoted, plain = text, unquote_to_bytes(text)
        for _ in range(_MOST_ESCAPES):
            if plain == quoted or not self._begins:
                break
            quoted, plain = plain, unquote_to_bytes(plain)
        clean = self._cut(quoted)
        # As it was sent, where nothing had to be cut out.
        return (text if clean == quoted else clean).decode("latin-1")

    def _cut(self, text: bytes) -> bytes:
        """Whatever begins as a token does, in the length of that token."""
        start = 0
        while self._begins and start + _SHORTEST_TOKEN <= len(text):
            begin = hashlib.sha256(text[start : start + _SHORTEST_TOKEN]).digest()
            length = self._begins.get(begin, 0)
            if length:
                text = text[:start] + _CUT + text[start + length :]
            start += len(_CUT) if length else 1
        return text
