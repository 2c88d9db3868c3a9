"""The address of an etcd cluster: `etcd://[user:password@]host:port[,host:port...][/root][?ca=...]`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from proreus.model.errors import UsageError

_FILES = ("ca", "cert", "key")
_DEFAULT_ROOT = "/proreus/"


@dataclass(frozen=True, slots=True)
class EtcdAddress:
    """Where the members are, and how to come in."""

    endpoints: tuple[str, ...]
    """`host:port` of each member that may be asked."""
    root: str = _DEFAULT_ROOT
    """Stands before every key; clusters of the engine with different roots share one etcd."""
    user: str = ""
    password: str = field(default="", repr=False)
    ca: Path | None = None
    """The authority that signed the members' certificates; with it connections are encrypted."""
    cert: Path | None = None
    key: Path | None = None
    """One's own certificate and key, where the members want one."""


def parse_address(address: str) -> EtcdAddress:
    """Read an address; raises `UsageError` in one line, without the password."""
    url = urlsplit(address)
    credentials, _, hosts = url.netloc.rpartition("@")
    shown = f"etcd://{hosts}"
    user, _, password = credentials.partition(":")
    if bool(user) != bool(password):
        raise UsageError(f"store {shown}: a user needs a password, as in etcd://user:password@host:port")
    if url.fragment:
        raise UsageError(f"store {shown}: nothing can follow '#'")
    files = _files(shown, url.query)
    return EtcdAddress(
        tuple(_endpoint(shown, host) for host in hosts.split(",")),
        f"/{url.path.strip('/')}/" if url.path.strip("/") else _DEFAULT_ROOT,
        unquote(user),
        unquote(password),
        **files,
    )


def _endpoint(shown: str, host: str) -> str:
    name, colon, port = host.rpartition(":")
    if not colon or not name or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageError(f"store {shown}: {host!r} is no host:port")
    return host


def _files(shown: str, query: str) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _FILES:
            raise UsageError(f"store {shown}: unknown option {name!r} (known: {', '.join(_FILES)})")
        if name in files:
            raise UsageError(f"store {shown}: the option {name!r} stands twice")
        files[name] = Path(value).expanduser()
        if not files[name].is_file():
            raise UsageError(f"store {shown}: {name}: there is no file {value!r}")
    if ("cert" in files) != ("key" in files):
        raise UsageError(f"store {shown}: cert and key belong together")
    if "cert" in files and "ca" not in files:
        raise UsageError(f"store {shown}: a cert without the ca that signed the members' certificates")
    return files
