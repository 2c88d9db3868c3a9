"""Where `proreus up` keeps a cluster and how the other verbs find it: a folder with store and kubeconfig."""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
import yaml

from proreus.data.cursor import Entry
from proreus.data.yaml_tree import read_documents
from proreus.model.errors import InputError, UsageError, WorkError, needs_extra
from proreus.model.files import make_private_folder, write_atomically

if TYPE_CHECKING:
    from proreus.cli.cluster.client import Client

NAME = "proreus"
"""Of the cluster, the user and the context in the kubeconfig."""
_PRIVATE = 0o077


def state_dir(explicit: Path | None) -> Path:
    """The folder of the cluster on this machine: --dir, else below the home for state."""
    if explicit is not None:
        return explicit
    named = os.environ.get("XDG_STATE_HOME")
    try:
        return (Path(named) if named else Path.home() / ".local" / "state") / "proreus"
    except RuntimeError:
        raise UsageError("there is no home to keep the cluster in: name a folder with --dir") from None


def make_state_dir(folder: Path) -> Path:
    """The same, made where it is missing; others may not look into it, for it holds a token."""
    try:
        make_private_folder(folder)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise WorkError(
            f"{folder}: the cluster cannot be kept here: {error.strerror}; name another folder with --dir"
        ) from error
    return folder


def kubeconfig_of(folder: Path) -> Path:
    """Where the kubeconfig lies in the folder of a cluster."""
    return folder / "kubeconfig"


@dataclass(frozen=True)
class Address:
    """Where an API answers, and what it wants to be told."""

    server: str
    token: str = ""
    authority: str = ""
    """File of the certificate that signs the server's; "": the system's."""
    authority_data: str = ""
    """The same as text (PEM)."""
    client: tuple[str, str] | None = None
    """Files of a client's certificate and key."""


def write_kubeconfig(path: Path, address: Address) -> None:
    """A kubeconfig for kubectl, and for the verbs here."""
    cluster: dict[str, str] = {"server": address.server}
    if address.authority_data:
        certificate = base64.b64encode(address.authority_data.encode()).decode()
        cluster["certificate-authority-data"] = certificate
    elif address.authority:
        cluster["certificate-authority"] = str(Path(address.authority).absolute())
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": address.token} if address.token else {}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "current-context": NAME,
    }
    text = yaml.safe_dump(content, sort_keys=False).encode()
    if not _stands(path, text):  # a disk that is full since is no reason not to start
        write_privately(path, text)


def _stands(path: Path, content: bytes) -> bool:
    """Whether the file is this already, and nobody else's to read."""
    try:
        return path.read_bytes() == content and not path.stat().st_mode & _PRIVATE
    except OSError:
        return False


def write_privately(path: Path, content: bytes) -> None:
    """A file that no other user may read at any moment."""
    write_atomically(path, content, private=True)


def read_kubeconfig(path: Path) -> Address:
    """The address in the current context of a kubeconfig, as far as the verbs here know it."""
    config = read_documents(path)[0]
    context = _named(config, "contexts", config.require("current-context").text()).require("context")
    cluster = _named(config, "clusters", context.require("cluster").text()).require("cluster")
    user = context.find("user")
    who = None if user is None else _named(config, "users", user.text()).find("user")

    def of_user(key: str) -> str:
        entry = None if who is None else who.find(key)
        return "" if entry is None else entry.text()

    if of_user("exec.command") or of_user("auth-provider.name"):
        raise InputError("only tokens and client certificates are understood here", file=path, field="users")
    certificate, key = of_user("client-certificate"), of_user("client-key")
    authority, data = cluster.find("certificate-authority"), cluster.find("certificate-authority-data")
    return Address(
        cluster.require("server").text().rstrip("/"),
        of_user("token"),
        _beside(path, "" if authority is None else authority.text()),
        "" if data is None else _decoded(data),
        (_beside(path, certificate), _beside(path, key)) if certificate and key else None,
    )


def _decoded(data: Entry) -> str:
    try:
        return base64.b64decode(data.text(), validate=True).decode()
    except ValueError:
        raise data.fail("it is no certificate in base64") from None


def _beside(path: Path, file: str) -> str:
    """A file that a kubeconfig names: relative to it."""
    return str(path.parent / file) if file else ""


def _named(config: Entry, key: str, name: str) -> Entry:
    for entry in config.children(key):
        if entry.require("name").text() == name:
            return entry
    raise config.fail(f"{key} has no {name!r}")


@dataclass(frozen=True)
class Where:
    """Which cluster is asked."""

    server: Annotated[str, tyro.conf.arg(aliases=("-s",), metavar="URL")] = ""
    """The address of its API; by default that of the cluster that `proreus up` started on this machine."""
    token: str = ""
    """What it wants to be told; by default PROREUS_TOKEN, or what the kubeconfig says."""
    kubeconfig: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Take address and token from this kubeconfig."""
    dir: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """The folder that `proreus up --dir` was told."""
    ca: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Over TLS: trust what this certificate signs (PEM)."""

    def open(self) -> Client:
        """Whoever asks it; a help text needs none, and so no library."""
        try:
            from proreus.cli.cluster.client import Client
        except ModuleNotFoundError as error:
            raise UsageError(f"asking a cluster {needs_extra('engine')} ({error})") from error
        return Client(self.address())

    def address(self) -> Address:
        """What the flags come to."""
        address = self._known()
        token = self.token or os.environ.get("PROREUS_TOKEN", "") or address.token
        if self.ca is not None:
            address = replace(address, authority=str(self.ca), authority_data="")
        return replace(address, token=token)

    def _known(self) -> Address:
        if self.server:
            if not self.server.startswith(("http://", "https://")):
                raise UsageError(f"--server {self.server!r} is no address such as http://127.0.0.1:6480")
            return Address(self.server.rstrip("/"))
        path = self.kubeconfig or kubeconfig_of(state_dir(self.dir))
        if self.kubeconfig is None and not path.exists():
            raise UsageError(
                f"no cluster is known here ({path} is missing): start one with `proreus up`, or name one "
                "with --server or --kubeconfig"
            )
        return read_kubeconfig(path)
