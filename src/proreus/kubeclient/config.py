"""Where the API is and who asks: kubeconfig files as kubectl reads them, or the Pod's own service account.

Order: --kubeconfig, $KUBECONFIG (several files, the first that says something counts), ~/.kube/config, the
service account of the Pod. Proxies of the environment are not used; a kubeconfig's proxy-url is. Errors name
file and field.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from proreus.data.cursor import Entry
from proreus.data.yaml_tree import read_documents
from proreus.kubeclient.credentials import Credentials, ExecPlugin, StaticToken, TokenFile
from proreus.model.errors import InputError, UsageError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class ClusterConfig:
    """One context: a server, what it has to show, and who asks."""

    server: str
    """`https://host:port`, and a path where the API is below one."""
    authority: bytes = b""
    """Certificates (PEM) of which one must have signed the server's; empty: those of the system."""
    server_name: str = ""
    """The name that the server's certificate is for, where that is not the host."""
    insecure: bool = False
    """The server's certificate is not verified, since a kubeconfig says so."""
    certificate: tuple[bytes, bytes] | None = None
    """Certificate and key (PEM) of whoever asks."""
    credentials: Credentials = field(default_factory=lambda: StaticToken(""))
    namespace: str = "default"
    proxy: str = ""
    """`http://host:port` of a proxy that is asked for a tunnel; "": none."""
    source: str = ""
    """Where that was read."""


def load_config(
    kubeconfig: Path | None = None, context: str = "", environment: Mapping[str, str] | None = None
) -> ClusterConfig:
    """The context that was asked for, or the current one; an error says what is missing where."""
    env = os.environ if environment is None else environment
    files = _files(kubeconfig, env)
    if files:
        return _of_files(files, context, env)
    if context:
        raise UsageError(f"--context {context}: there is no kubeconfig to look it up in")
    if env.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(env)
    raise UsageError("no cluster: name a kubeconfig with --kubeconfig or $KUBECONFIG, or run in a Pod")


def in_cluster(env: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> ClusterConfig:
    """The API as a Pod sees it, with its service account; the token is read again, for it is renewed."""
    host, port = env["KUBERNETES_SERVICE_HOST"], env.get("KUBERNETES_SERVICE_PORT", "443")
    host = f"[{host}]" if ":" in host else host
    authority = _bytes_of(folder / "ca.crt", "the service account of this Pod")
    token = TokenFile(folder / "token")
    token.check()
    namespace = folder / "namespace"
    named = namespace.read_text().strip() if namespace.is_file() else "default"
    return ClusterConfig(
        f"https://{host}:{port}",
        authority,
        credentials=token,
        namespace=named or "default",
        source=str(folder),
    )


def _files(kubeconfig: Path | None, env: Mapping[str, str]) -> list[Path]:
    if kubeconfig is not None:
        return [kubeconfig]
    named = [Path(part) for part in env.get("KUBECONFIG", "").split(os.pathsep) if part]
    if named:
        there = [path for path in named if path.exists()]
        if not there:
            raise InputError("there is no such file", file=named[0], field="KUBECONFIG")
        return there
    home = env.get("HOME")
    usual = Path(home) / ".kube" / "config" if home else None
    return [usual] if usual is not None and usual.exists() else []


@dataclass(frozen=True)
class _Merged:
    """Several kubeconfig files as one: of two that say the same, the first counts."""

    documents: tuple[Entry, ...]

    def current(self) -> str:
        for document in self.documents:
            if named := document.text_at("current-context"):
                return named
        return ""

    def named(self, kind: str, name: str, part: str) -> tuple[Entry, Path]:
        """The entry, and the folder that its files are relative to."""
        for document in self.documents:
            for item in document.children(kind):
                if item.text_at("name") == name:
                    return item.find(part) or item, document.file.parent
        known = [item.text_at("name") for document in self.documents for item in document.children(kind)]
        listed = ", ".join(sorted(known)[:20]) or "none"
        raise InputError(f"there is no {name!r} (known: {listed})", file=self.documents[0].file, field=kind)


def _of_files(files: list[Path], context: str, env: Mapping[str, str]) -> ClusterConfig:
    merged = _Merged(tuple(read_documents(path)[0] for path in files))
    name = context or merged.current()
    if not name:
        raise InputError(
            "no context is chosen: name one with --context", file=files[0], field="current-context"
        )
    chosen, _ = merged.named("contexts", name, "context")
    cluster, folder = merged.named("clusters", chosen.require("cluster").text(), "cluster")
    user = chosen.find("user")
    who, users = merged.named("users", user.text(), "user") if user is not None else (None, folder)
    server = cluster.require("server")
    config = ClusterConfig(
        _checked_server(server),
        _pem(cluster, "certificate-authority", folder),
        cluster.text_at("tls-server-name"),
        cluster.truth_at("insecure-skip-tls-verify"),
        _certificate(who, users),
        _credentials(who, users, cluster, env),
        chosen.text_at("namespace", "default") or "default",
        _proxy(cluster),
        f"{chosen.file} ({name})",
    )
    if config.insecure and config.authority:
        raise cluster.require("insecure-skip-tls-verify").fail("not together with a certificate-authority")
    return config


def _checked_server(entry: Entry) -> str:
    server = entry.text().rstrip("/")
    parts = urlsplit(server)
    try:
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment:
        raise entry.fail(f"{server!r} is no address of an API: https://HOST:PORT")
    return server


def _proxy(cluster: Entry) -> str:
    entry = cluster.find("proxy-url")
    if entry is None:
        return ""
    if urlsplit(entry.text()).scheme != "http" or not urlsplit(entry.text()).hostname:
        raise entry.fail("only proxies at http://HOST:PORT are understood")
    return entry.text()


def _pem(entry: Entry | None, key: str, folder: Path) -> bytes:
    """The content of a PEM file, or the same in base64 under KEY-data, which counts first."""
    if entry is None:
        return b""
    data, file = entry.find(f"{key}-data"), entry.find(key)
    if data is not None and data.text():
        try:
            content = base64.b64decode("".join(data.text().split()), validate=True)
        except (binascii.Error, ValueError):
            raise data.fail("it is not base64") from None
        if b"-----BEGIN" not in content:
            raise data.fail("there is nothing in PEM form in it")
        return content
    if file is None or not file.text():
        return b""
    content = _bytes_of(folder / file.text(), f"{file.file}: {file.field}")
    if b"-----BEGIN" not in content:
        raise file.fail(f"{folder / file.text()}: there is nothing in PEM form in it")
    return content


def _bytes_of(path: Path, named_by: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror} (named by {named_by})", file=path) from error


def _certificate(who: Entry | None, folder: Path) -> tuple[bytes, bytes] | None:
    certificate, key = _pem(who, "client-certificate", folder), _pem(who, "client-key", folder)
    if who is not None and bool(certificate) != bool(key):
        raise who.fail("client-certificate and client-key come together")
    return (certificate, key) if certificate else None


def _credentials(who: Entry | None, folder: Path, cluster: Entry, env: Mapping[str, str]) -> Credentials:
    if who is None:
        return StaticToken("")
    if (provider := who.find("auth-provider")) is not None:
        raise provider.fail("auth providers are gone since Kubernetes 1.26: use exec")
    if (plugin := who.find("exec")) is not None:
        return _exec(plugin, folder, cluster, env)
    if (file := who.find("tokenFile")) is not None and file.text():
        token = TokenFile(folder / file.text())
        token.check()
        return token
    if (name := who.text_at("username")) or who.text_at("password"):
        pair = f"{name}:{who.text_at('password')}".encode()
        return StaticToken(base64.b64encode(pair).decode(), "Basic")
    return StaticToken(who.text_at("token"))


def _exec(plugin: Entry, folder: Path, cluster: Entry, env: Mapping[str, str]) -> ExecPlugin:
    version = plugin.require("apiVersion")
    known = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
    if version.text() not in known:
        raise version.fail(f"one of {', '.join(known)}")
    command = plugin.require("command").text()
    if os.sep in command:  # a bare name is looked up in PATH
        command = str(folder / command)
    told = None
    if plugin.truth_at("provideClusterInfo"):
        told = {"server": cluster.require("server").text()}
        for key in ("tls-server-name", "certificate-authority-data"):
            if value := cluster.text_at(key):
                told[key] = value
    added = {item.require("name").text(): item.text_at("value") for item in plugin.children("env")}
    return ExecPlugin(
        (command, *(item.text() for item in plugin.children("args"))),
        version.text(),
        {**env, **added},
        told,
        plugin.text_at("installHint"),
    )
