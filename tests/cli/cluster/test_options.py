"""From flags to nodes: this machine or simulated ones, and who may ask then."""

from __future__ import annotations

import socket
import stat
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="a cluster needs the extra `engine`")

from proreus.cli.cluster.flags import Machine, Nodes
from proreus.cli.cluster.machine import machine_address, machine_name
from proreus.cli.cluster.options import Naming, node_options, secured
from proreus.cli.cluster.tokens import admin_token, own_tokens
from proreus.engine.api.identities import Role, read_tokens
from proreus.engine.api.options import ApiOptions
from proreus.engine.housing import MachineNode, SimulatedNodes
from proreus.engine.running import EngineOptions


@pytest.fixture
def naming(tmp_path: Path) -> Naming:
    return Naming("rack-", "this-machine", tmp_path / "state", seed=7)


def test_without_a_number_of_nodes_it_is_this_machine(naming: Naming, tmp_path: Path) -> None:
    flags = Machine("process", Path("c.sock"), allow_host_path=(tmp_path,), allow_privileged=True)
    node = node_options(flags, Nodes(), naming)
    assert isinstance(node, MachineNode)
    assert (node.name, node.runtime) == ("this-machine", "process")
    options = node.options
    assert options.root == tmp_path / "state" / "node" and options.socket == Path("c.sock").absolute()
    assert options.host_paths == (tmp_path,) and options.allow_privileged
    assert options.address == machine_address()
    strict = node_options(Machine("process"), Nodes(), naming)
    assert isinstance(strict, MachineNode)
    assert strict.options.host_paths == () and not strict.options.allow_privileged


def test_with_a_number_they_are_simulated(naming: Naming) -> None:
    nodes = node_options(Machine(), Nodes(nodes=2, node_cpu="4"), naming)
    assert isinstance(nodes, SimulatedNodes)
    assert (nodes.names, nodes.seed, nodes.pool) == (("rack-1", "rack-2"), 7, "rack-")
    assert nodes.amounts["cpu"] == "4"


def test_real_pods_have_a_token_and_simulated_ones_need_none(naming: Naming, tmp_path: Path) -> None:
    real = node_options(Machine("process"), Nodes(), naming)
    simulated = node_options(Machine(), Nodes(nodes=1), naming)
    options = EngineOptions("memory:", real, api=ApiOptions())
    made, path = secured(options, tmp_path)
    assert path is not None and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert made.api is not None and made.api.tokens is not None
    assert [one.role for one in made.api.tokens.values()] == [Role.ADMIN]
    assert len(admin_token(path)) >= 40 and own_tokens(tmp_path).read_text() == path.read_text()
    assert secured(replace(options, nodes=simulated), tmp_path)[1] is None
    given = replace(options, api=ApiOptions(tokens=read_tokens(path)))
    assert secured(given, tmp_path) == (given, None), "a file that was given counts"
    path.chmod(0o644)
    with pytest.raises(Exception, match="chmod 600"):
        secured(options, tmp_path)


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
