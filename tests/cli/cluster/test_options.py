"""From flags to nodes: this machine or simulated ones, and who may ask then."""

from __future__ import annotations

import socket
import stat
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="a cluster needs the extra `engine`")

from proreus.cli.cluster.flags import Machine, SimulatedNodeFlags
from proreus.cli.cluster.host_name import machine_address, machine_name
from proreus.cli.cluster.options import Naming, node_options, secured
from proreus.cli.cluster.tokens import first_token, own_tokens
from proreus.engine.api.server.authentication import Role, read_tokens
from proreus.engine.api.server.options import ApiOptions
from proreus.engine.cluster import EngineOptions
from proreus.engine.node_host import MachineNode, SimulatedNodes
from proreus.httpserver.certificate_authority import Authority
from proreus.model.errors import InputError


@pytest.fixture
def naming(tmp_path: Path) -> Naming:
    return Naming("rack-", "this-machine", tmp_path / "state", seed=7)


def test_without_a_number_of_nodes_it_is_this_machine(naming: Naming, tmp_path: Path) -> None:
    flags = Machine("process", Path("c.sock"), allow_host_path=(tmp_path,), allow_privileged=True)
    node = node_options(flags, SimulatedNodeFlags(), naming)
    assert isinstance(node, MachineNode)
    assert (node.name, node.runtime) == ("this-machine", "process")
    options = node.options
    assert options.root == tmp_path / "state" / "node" and options.socket == Path("c.sock").absolute()
    assert options.host_paths == (tmp_path,) and options.allow_privileged
    assert options.address == machine_address()
    strict = node_options(Machine("process"), SimulatedNodeFlags(), naming)
    assert isinstance(strict, MachineNode)
    assert strict.options.host_paths == () and not strict.options.allow_privileged


def test_with_a_number_they_are_simulated(naming: Naming) -> None:
    nodes = node_options(Machine(), SimulatedNodeFlags(nodes=2, node_cpu="4"), naming)
    assert isinstance(nodes, SimulatedNodes)
    assert (nodes.names, nodes.seed, nodes.pool) == (("rack-1", "rack-2"), 7, "rack-")
    assert nodes.amounts["cpu"] == "4"


@pytest.mark.parametrize(
    "nodes", [SimulatedNodeFlags(), SimulatedNodeFlags(nodes=1)], ids=["real", "simulated"]
)
def test_whatever_the_nodes_are_there_are_tokens_and_a_certificate(
    naming: Naming, tmp_path: Path, nodes: SimulatedNodeFlags
) -> None:
    machine = Machine("process") if nodes.nodes is None else Machine()
    options = EngineOptions("memory:", node_options(machine, nodes, naming), api=ApiOptions())
    made, path = secured(options, tmp_path)
    assert path is not None and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert made.api is not None and made.api.tokens is not None and made.api.plain_here
    assert [token.role for token in made.api.tokens.values()] == [Role.VIEWER, Role.ADMIN]
    assert len(first_token(path, "admin")) >= 40 and own_tokens(tmp_path).read_text() == path.read_text()
    assert made.api.authority == Authority(tmp_path / "tls", ("localhost", "127.0.0.1", "::1", "127.0.0.1"))
    credentials = (tmp_path / "a.pem", tmp_path / "b.pem")
    given = replace(options, api=ApiOptions(tokens=read_tokens(path), credentials=credentials))
    assert secured(given, tmp_path) == (given, None), "files that were given count"
    path.chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        secured(options, tmp_path)


def test_a_file_of_earlier_days_gets_the_token_of_the_page(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("# Made by `proreus up`\n0123456789abcdef,owner,admin\n")
    (tmp_path / "tokens").chmod(0o600)
    path = own_tokens(tmp_path)
    assert first_token(path, "admin") == "0123456789abcdef" and len(first_token(path, "viewer")) >= 40
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_certificate_has_the_names_that_the_api_listens_on(naming: Naming, tmp_path: Path) -> None:
    nodes = node_options(Machine(), SimulatedNodeFlags(nodes=1), naming)
    tokens = read_tokens(own_tokens(tmp_path))
    hosts = ("cluster.example",)
    for host, address in (("0.0.0.0", machine_address()), ("192.0.2.7", "192.0.2.7")):
        api = ApiOptions(host, tokens=tokens, allowed_hosts=hosts)
        made, _ = secured(EngineOptions("memory:", nodes, api=api), tmp_path)
        assert made.api is not None and made.api.authority is not None
        assert {"localhost", "127.0.0.1", "::1", address, *hosts} <= set(made.api.authority.names)


@pytest.mark.parametrize(
    ("host", "name"), [("Laptop.local", "laptop.local"), ("my_host", "my-host"), ("_", "node"), ("-a-", "a")]
)
def test_the_machine_s_name_is_a_node_s(host: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert machine_name() == name


def test_a_machine_without_a_way_out_has_its_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unreachable(socket.socket):
        def connect(self, address: object) -> None:
            raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket, "socket", Unreachable)
    assert machine_address() == "127.0.0.1"
