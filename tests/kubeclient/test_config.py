"""Kubeconfigs as kubectl reads them; what is wrong is told with file and field."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from pathlib import Path

import pytest

from proreus.kubeclient.config import in_cluster, load_config
from proreus.kubeclient.credentials import ExecPlugin, TokenFile
from proreus.model.errors import InputError, ProreusError, WorkError

_PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
_CONFIG = """\
apiVersion: v1
kind: Config
current-context: {current}
clusters:
- name: east
  cluster: {{server: "https://east:6443/", tls-server-name: api, proxy-url: "http://proxy:3128"}}
- name: west
  cluster: {{server: "https://west:6443", certificate-authority: ca.pem}}
users:
- name: alice
  user: {{token: secret}}
- name: bob
  user: {{tokenFile: token}}
contexts:
- {{name: e, context: {{cluster: east, user: alice, namespace: work}}}}
- {{name: w, context: {{cluster: west, user: bob}}}}
"""


def _written(folder: Path, current: str = "e") -> Path:
    path = folder / "config"
    path.write_text(_CONFIG.format(current=current))
    (folder / "ca.pem").write_text(_PEM)
    (folder / "token").write_text("from-a-file\n")
    return path


def test_the_current_context_or_the_one_that_is_named(tmp_path: Path) -> None:
    path = _written(tmp_path)
    east, west = load_config(path), load_config(path, "w")
    assert (east.server, east.server_name, east.namespace) == ("https://east:6443", "api", "work")
    assert east.proxy == "http://proxy:3128" and not west.proxy
    assert west.authority == _PEM.encode() and west.namespace == "default"
    assert asyncio.run(east.credentials.header()) == "Bearer secret"
    assert asyncio.run(west.credentials.header()) == "Bearer from-a-file"


def test_of_several_files_the_first_that_says_something_counts(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.write_text("apiVersion: v1\nkind: Config\ncurrent-context: w\n")
    environment = {"KUBECONFIG": f"{first}:{tmp_path / 'missing'}:{_written(tmp_path)}"}
    assert load_config(environment=environment).server == "https://west:6443"


def test_proxies_of_the_environment_are_not_used(tmp_path: Path) -> None:
    environment = {"KUBECONFIG": str(_written(tmp_path, "w")), "HTTPS_PROXY": "http://evil:1"}
    assert load_config(environment=environment).proxy == ""


def _without(text: str, replacement: str) -> str:
    content = _CONFIG.format(current="w")
    assert text in content
    return content.replace(text, replacement)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (_without("current-context: w", "x: y"), "current-context: no context is chosen"),
        (_without("current-context: w", "current-context: z"), "contexts: there is no 'z' (known: e, w)"),
        (
            _without("name: w, context: {cluster: west", "name: w, context: {cluster: north"),
            "clusters: there is",
        ),
        (_without('"https://west:6443"', '"ftp://x"'), "is no address of an API"),
        (_without("certificate-authority: ca.pem", "certificate-authority: no.pem"), "named by"),
        (_without("certificate-authority: ca.pem", "certificate-authority-data: '!!'"), "it is not base64"),
        (_without("certificate-authority: ca.pem", "insecure-skip-tls-verify: 3"), "neither true nor false"),
        (
            _without(
                "certificate-authority: ca.pem",
                "certificate-authority: ca.pem, insecure-skip-tls-verify: true",
            ),
            "not together with a certificate-authority",
        ),
        (_without("{tokenFile: token}", "{auth-provider: {name: gcp}}"), "auth providers are gone"),
        (_without("{tokenFile: token}", "{tokenFile: nowhere}"), "cannot be read"),
        (_without("{tokenFile: token}", "{client-certificate: ca.pem}"), "come together"),
        (_without("{tokenFile: token}", "{exec: {apiVersion: v9, command: x}}"), "exec.apiVersion: one of"),
        ("[", "not valid YAML"),
        ("- 1\n", "a mapping"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_field(tmp_path: Path, content: str, told: str) -> None:
    path = _written(tmp_path)
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        load_config(path)
    assert str(tmp_path) in str(caught.value) and told in str(caught.value)


def test_without_any_cluster_it_says_how_to_name_one(tmp_path: Path) -> None:
    with pytest.raises(ProreusError, match="--kubeconfig"):
        load_config(environment={"HOME": str(tmp_path)})
    with pytest.raises(InputError, match="no such file"):
        load_config(environment={"KUBECONFIG": str(tmp_path / "no")})


def test_a_pods_service_account_whose_token_is_renewed(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text(_PEM)
    (tmp_path / "token").write_text("first")
    (tmp_path / "namespace").write_text("ours\n")
    env = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    config = in_cluster(env, tmp_path)
    assert (config.server, config.namespace) == ("https://[fd00::1]:443", "ours")
    token = config.credentials
    assert isinstance(token, TokenFile)
    seconds = [0.0]
    token.clock = lambda: seconds[0]
    token.check()
    (tmp_path / "token").write_text("second")
    assert asyncio.run(token.header()) == "Bearer first"
    seconds[0] = 61.0
    assert asyncio.run(token.header()) == "Bearer second"
    (tmp_path / "token").unlink()
    seconds[0] = 200.0
    assert asyncio.run(token.header()) == "Bearer second", "a file that is away for a moment ends nothing"
    (tmp_path / "token").write_text("third")
    assert token.refused()
    assert asyncio.run(token.header()) == "Bearer third"


_PLUGIN = """\
import json, os, pathlib, sys
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
count = pathlib.Path(sys.argv[1]); n = int(count.read_text() or 0) + 1; count.write_text(str(n))
assert info["spec"]["interactive"] is False
token = f"{os.environ['PREFIX']}-{n}-{info['spec'].get('cluster', {}).get('server', '')}"
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential",
                  "status": {"token": token, "expirationTimestamp": sys.argv[2]}}))
"""


def _plugin_config(folder: Path, ends: str) -> Path:
    (folder / "plugin.py").write_text(_PLUGIN)
    (folder / "count").write_text("0")
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(folder / "plugin.py"), str(folder / "count"), ends],
        "env": [{"name": "PREFIX", "value": "p"}],
        "provideClusterInfo": True,
        "installHint": "get it from the shop",
    }
    path = _written(folder, "w")
    path.write_text(_without("{tokenFile: token}", json.dumps({"exec": plugin})))
    return path


def test_a_plugin_is_asked_again_when_its_token_ends_or_is_refused(tmp_path: Path) -> None:
    plugin = load_config(_plugin_config(tmp_path, "2026-01-01T01:00:00Z")).credentials
    assert isinstance(plugin, ExecPlugin)
    seconds = [1767225600.0]  # an hour before
    plugin.clock = lambda: seconds[0]

    async def all_of_it() -> list[str]:
        first = [await plugin.header(), await plugin.header()]
        assert plugin.refused()
        second = [await plugin.header()]
        seconds[0] += 3590
        return [*first, *second, await plugin.header()]

    server = "https://west:6443"
    assert asyncio.run(all_of_it()) == [f"Bearer p-{n}-{server}" for n in (1, 1, 2, 3)]


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("import sys; sys.exit('no such profile')", "failed with 1: no such profile"),
        ("print('{}')", "no ExecCredential"),
        ("print('not json')", "no ExecCredential"),
        ('print(\'{"apiVersion": "x", "status": {"token": "t"}}\')', "apiVersion 'x'"),
    ],
)
def test_a_plugin_that_fails_says_why(tmp_path: Path, program: str, told: str) -> None:
    config = load_config(_plugin_config(tmp_path, ""))
    (tmp_path / "plugin.py").write_text(program)
    with pytest.raises(WorkError, match=told):
        asyncio.run(config.credentials.header())


def test_a_plugin_that_is_not_there_comes_with_its_hint(tmp_path: Path) -> None:
    path = _plugin_config(tmp_path, "")
    path.write_text(path.read_text().replace(sys.executable, "no-such-plugin"))
    with pytest.raises(WorkError, match="get it from the shop"):
        asyncio.run(load_config(path).credentials.header())


def test_data_in_base64_counts_before_the_file(tmp_path: Path) -> None:
    path = _written(tmp_path, "w")
    data = base64.b64encode(_PEM.replace("AAAA", "BBBB").encode()).decode()
    path.write_text(
        _without(
            "certificate-authority: ca.pem",
            f"certificate-authority: ca.pem, certificate-authority-data: {data}",
        )
    )
    assert b"BBBB" in load_config(path).authority
