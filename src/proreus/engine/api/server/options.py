"""What the door of the API is told when it is opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from proreus.engine.api.server.authentication import Identity
from proreus.httpserver.certificate_authority import Authority
from proreus.httpserver.host_names import bare, is_loopback
from proreus.model.errors import UsageError

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True)
class ApiLimits:
    """What a client may ask of the door."""

    body_bytes: int = 3 * MEBIBYTE
    held_bytes: int = 64 * MEBIBYTE
    """Of all large bodies that are there at once."""
    concurrency: int = 512
    """Requests at work at once, watches aside."""
    per_client: int = 256
    """The same, of one client."""
    health: int = 128
    """Of /livez and its like, which have room of their own: who asks is to hear of it when there is none."""
    followers: int = 1024
    """Logs that are being read, to their end or for as long as they grow."""
    followers_per_client: int = 256
    portion_bytes: int = 2 * MEBIBYTE
    """Of a list: what is longer is read and sent in portions of so much, as the objects are stored."""
    listed_bytes: int = 32 * MEBIBYTE
    """Of all long lists that are being sent, and of what stands when watches begin; a client has half."""
    portion_seconds: float = 0.3
    """How long a list waits for room among them before it is refused."""
    watches: int = 2048
    watches_per_client: int = 1024
    streams: int = 256
    """Of exec, attach and port-forward, open at once."""
    streams_per_client: int = 64
    stream_idle_seconds: float = 4 * 3600.0
    """How long such a stream may be quiet."""
    watch_events: int = 8192
    """Events that wait for one watcher; one that is slower is cut, and lists again."""
    watch_bytes: int = 16 * MEBIBYTE
    """Of the objects of these events, as they are stored."""
    remembered_events: int = 4096
    """Events of each kind from which a watch can go on without asking the store."""
    remembered_bytes: int = 32 * MEBIBYTE
    """That these take in memory."""
    event_bytes: int = 96 * MEBIBYTE
    """That all events take in memory, remembered or waiting; one that many wait for counts once."""
    connections: int = 4096
    body_seconds: float = 10.0
    """How long the head of a request may take to come, and how long its body."""
    idle_seconds: float = 75.0
    """How long a connection may stay open between requests."""
    write_seconds: float = 20.0
    """How long an answer may take to be taken."""
    watch_seconds: int = 1800
    """How long a watch lasts that does not say; the longest is twice that."""
    bookmark_seconds: float = 15.0
    """How often a quiet watch that wants bookmarks is told how far it is."""


@dataclass(frozen=True)
class ApiOptions:
    """Where the door is, who may come in, what is written down."""

    host: str = "127.0.0.1"
    port: int = 0
    tokens: Mapping[bytes, Identity] | None = None
    """See `authentication.read_tokens`; None: whoever reaches the API is an admin, on loopback only."""
    allowed_hosts: tuple[str, ...] = ()
    """Further names under which the door is reached."""
    credentials: tuple[Path, Path] | None = None
    """Certificate and key: then TLS is spoken, and nothing else."""
    authority: Authority | None = None
    """Where there are none: who makes them, and renews them in time."""
    plain_here: bool = False
    """With TLS: whether clients of this machine are answered without it, too, on the same port."""
    audit: Path | None = None
    """Where changes and refusals are written down."""
    audit_bytes: int = 64 * MEBIBYTE
    audit_files: int = 5
    limits: ApiLimits = field(default_factory=ApiLimits)

    def __post_init__(self) -> None:
        if self.tokens is None and not is_loopback(self.host):
            raise UsageError(
                f"the API listens on {self.host}, beyond this machine, only with tokens: --token-file FILE"
            )

    @property
    def names(self) -> frozenset[str] | None:
        """The names of hosts that are answered to, besides those of loopback; None: any."""
        hosts = frozenset(bare(name).lower() for name in self.allowed_hosts)
        return hosts if is_loopback(self.host) or hosts else None
