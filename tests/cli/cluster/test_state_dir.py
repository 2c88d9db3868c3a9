"""Where a cluster lies, and how it is found again."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from proreus.cli.cluster.lock import only_one
from proreus.cli.cluster.state_dir import (
    Address,
    Where,
    kubeconfig_of,
    make_state_dir,
    read_kubeconfig,
    state_dir,
    write_kubeconfig,
)
from proreus.model.errors import InputError, UsageError, WorkError


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROREUS_TOKEN", raising=False)


def test_the_folder_is_the_one_named_else_that_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert state_dir(None) == Path("/state/proreus")
    assert state_dir(tmp_path) == tmp_path
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_dir(None) == tmp_path / ".local/state/proreus"


def test_the_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    made = make_state_dir(tmp_path / "a" / "b")
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_a_home_that_cannot_be_written_is_told_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkError, match="cannot be kept here: Not a directory; name another folder"):
        make_state_dir(tmp_path / "file" / "proreus")


def test_a_kubeconfig_is_read_back_and_secret(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    address = Address("https://127.0.0.1:6480", "secret-token", str(tmp_path / "ca.pem"))
    write_kubeconfig(path, address)
    assert read_kubeconfig(path) == address
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    inside = Address("https://127.0.0.1:6480", "secret-token", authority_data="-----BEGIN\n")
    write_kubeconfig(path, inside)
    assert read_kubeconfig(path) == inside
    assert "secret-token" not in path.read_text().partition("users:")[0], "the address has none in it"


def test_kubectl_s_own_kubeconfig_is_understood(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        "current-context: b\n"
        "contexts:\n- {name: a, context: {cluster: a}}\n- {name: b, context: {cluster: c, user: u}}\n"
        "clusters:\n- {name: c, cluster: {server: 'https://c:1', certificate-authority: ca.pem}}\n"
        "users:\n- {name: u, user: {client-certificate: c.pem, client-key: k.pem}}\n"
    )
    kubeconfig = read_kubeconfig(path)
    assert (kubeconfig.server, kubeconfig.authority) == ("https://c:1", str(tmp_path / "ca.pem"))
    assert kubeconfig.client == (str(tmp_path / "c.pem"), str(tmp_path / "k.pem"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("current-context: x\ncontexts: []\n", "contexts has no 'x'"),
        ("contexts: []\n", "current-context"),
        (
            "current-context: b\ncontexts: [{name: b, context: {cluster: c}}]\n"
            "clusters: [{name: c, cluster: {server: 'https://c', certificate-authority-data: '?'}}]\n",
            "no certificate in base64",
        ),
        (
            "current-context: b\ncontexts: [{name: b, context: {cluster: c, user: u}}]\n"
            "clusters: [{name: c, cluster: {server: 'http://c'}}]\n"
            "users: [{name: u, user: {exec: {command: aws}}}]\n",
            "only tokens and client certificates",
        ),
    ],
)
def test_a_kubeconfig_that_cannot_be_used(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(InputError, match=says):
        read_kubeconfig(tmp_path / "config")


def test_flags_come_before_the_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_kubeconfig(kubeconfig_of(tmp_path), Address("http://127.0.0.1:1", "of the file"))
    assert Where(dir=tmp_path).address() == Address("http://127.0.0.1:1", "of the file")
    assert Where(dir=tmp_path, token="t").address().token == "t"
    assert Where(server="http://h:2/").address() == Address("http://h:2")
    monkeypatch.setenv("PROREUS_TOKEN", "of the environment")
    assert Where(dir=tmp_path).address().token == "of the environment"


def test_where_there_is_no_cluster_it_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="start one with `proreus up`"):
        Where(dir=tmp_path).address()
    with pytest.raises(UsageError, match="is no address such as"):
        Where(server="127.0.0.1:6480").address()


def test_a_folder_has_one_cluster_at_a_time(tmp_path: Path) -> None:
    with (
        only_one(tmp_path),
        pytest.raises(WorkError, match=rf"runs here already \(process {os.getpid()}\)"),
        only_one(tmp_path),
    ):
        pass
    with only_one(tmp_path):  # and afterwards it is free
        pass
