"""Who may do what, and what hostile clients get."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from proreus.engine.api.server.application import ApiDependencies, create_app
from proreus.engine.api.server.audit import AuditLog
from proreus.engine.api.server.authentication import Role, read_tokens
from proreus.engine.api.server.authorization import Action, allowed
from proreus.engine.api.server.options import ApiLimits, ApiOptions
from proreus.engine.objects.registry import Registry
from proreus.engine.store.memory import MemoryStore
from proreus.httpserver.pages import PageReply, PageRequest
from proreus.model.errors import InputError, UsageError
from tests.certificates import make_certificate
from tests.engine.api.live import Live, live
from tests.engine.objects import official_fields

_TOKENS = {role: f"{role.value}-0123456789abcdef" for role in Role}
_POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def _token_file(folder: Path, text: str | None = None) -> Path:
    path = folder / "tokens"
    path.write_text(
        text or "".join(f"{token},{role.value}-1,{role.value}\n" for role, token in _TOKENS.items())
    )
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("guarded")
    limits = ApiLimits(body_seconds=2.5, idle_seconds=1.0, write_seconds=1.0, per_client=64)
    options = ApiOptions(tokens=read_tokens(_token_file(folder)), audit=folder / "audit.jsonl", limits=limits)
    with live(options) as door:
        yield door


def _as(door: Live, role: Role) -> httpx.Client:
    return door.client(authorization=f"Bearer {_TOKENS[role]}")


def test_beyond_this_machine_tokens_are_needed() -> None:
    with pytest.raises(UsageError, match="--token-file"):
        ApiOptions(host="0.0.0.0")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("short,me,admin\n", "16 to 1024"),
        ("0123456789abcdef,me,king\n", "none of admin, agent, viewer"),
        ("0123456789abcdef,me\n", "token,name,role"),
        ("0123456789abcdef,me,admin\n0123456789abcdef,you,admin\n", "twice"),
        ("# nobody\n", "no token"),
    ],
)
def test_a_bad_token_file_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_tokens(_token_file(tmp_path, text))


def test_a_token_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = _token_file(tmp_path)
    path.chmod(0o640)
    with pytest.raises(InputError, match="chmod 600"):
        read_tokens(path)


def test_nobody_without_a_token_gets_further_than_health(guarded: Live) -> None:
    with guarded.client() as client:
        assert client.get("/healthz").text == "ok"
        for method, path in (("GET", "/api"), ("GET", "/v1/metrics"), ("GET", "/openapi/v2"), ("GET", "/x")):
            answer = client.request(method, path)
            assert (answer.status_code, answer.json()["reason"]) == (401, "Unauthorized")
        assert client.post("/api/v1/namespaces/default/pods", json=_POD).status_code == 401


class _OnePage:
    """A dashboard with one file, which tells whether whoever asks may write."""

    def file(self, path: str) -> PageReply | None:
        return PageReply(b"a page", 200, {"content-type": "text/plain"}) if path == "/" else None

    async def answer(self, request: PageRequest) -> PageReply:
        told = f"{request.method} {request.path} {request.may_write} {request.body.decode()}"
        return PageReply(told.encode(), 200, {"content-type": "text/plain"})

    def close(self) -> None:
        """Nothing."""


def test_a_dashboard_answers_those_who_may_read_and_knows_who_may_write(tmp_path: Path) -> None:
    options = ApiOptions(tokens=read_tokens(_token_file(tmp_path)))
    app = create_app(Registry(MemoryStore()), options, ApiDependencies(pages=_OnePage()))

    async def ask(method: str, path: str, **heads: str) -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(
                method, path, headers=heads, content=b"{}" if method == "POST" else None
            )

    async def play() -> None:
        heads = {role: {"authorization": f"Bearer {token}"} for role, token in _TOKENS.items()}
        assert (await ask("GET", "/")).text == "a page", "the files hold nothing"
        assert (await ask("GET", "/dashboard/runs")).status_code == 401
        assert (await ask("GET", "/dashboard/runs", **heads[Role.VIEWER])).text == "GET runs False "
        assert (await ask("POST", "/dashboard/x", **heads[Role.VIEWER])).text == "POST x False {}"
        assert (await ask("POST", "/dashboard/x", **heads[Role.ADMIN])).text == "POST x True {}"
        assert (await ask("PUT", "/dashboard/x", **heads[Role.ADMIN])).status_code == 405
        elsewhere = {"origin": "http://evil.example", **heads[Role.ADMIN]}
        assert (await ask("POST", "/dashboard/x", **elsewhere)).status_code == 403
        assert (await ask("GET", "/dashboard/x", **{"sec-fetch-site": "cross-site"})).status_code == 403

    asyncio.run(play())


def test_further_pages_too_answer_to_the_names_of_the_server_alone() -> None:
    app = create_app(Registry(MemoryStore()), ApiOptions(), ApiDependencies(pages=_OnePage()))

    async def ask(host: str, path: str = "/") -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
            return await client.get(path)

    async def play() -> None:
        assert (await ask("localhost")).text == "a page"
        assert (await ask("127.0.0.1:6480")).text == "a page"
        refused = await ask("rebound.example")
        assert (refused.status_code, refused.json()["reason"]) == (403, "Forbidden")
        assert (await ask("localhost", "/elsewhere")).status_code == 404

    asyncio.run(play())


def test_wrong_tokens_are_slowed_down_and_right_ones_are_not(guarded: Live) -> None:
    with guarded.client(authorization="Bearer wrong-0123456789abcdef") as client:
        assert 429 in [client.get("/api").status_code for _ in range(40)]
    with _as(guarded, Role.VIEWER) as client:
        assert client.get("/api").status_code == 200


def test_the_version_is_told_with_and_without_a_slash(guarded: Live) -> None:
    with _as(guarded, Role.VIEWER) as client:
        response = client.get("/version/")
        assert response.status_code == 200 and response.json() == client.get("/version").json()
        stated = response.json()
        assert stated["gitVersion"] == f"{official_fields.VERSION}+proreus", "as the table of fields"
        assert f"v{stated['major']}.{stated['minor']}.0" == official_fields.VERSION


def test_a_viewer_reads_all_but_secrets_and_changes_nothing(guarded: Live) -> None:
    with _as(guarded, Role.VIEWER) as client:
        assert client.get("/api/v1/pods").status_code == 200
        for path in ("/api/v1/secrets", "/api/v1/namespaces/default/secrets/x", "/api/v1/secrets?watch=1"):
            assert client.get(path).status_code == 403
        told = client.post("/api/v1/namespaces/default/pods", json=_POD).json()
        assert "cannot create resource" in told["message"]
        assert client.delete("/api/v1/namespaces/default/pods").status_code == 403
        assert client.put("/v1/schedulers/x", json={"policy": "kube"}).status_code == 403
        review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "secrets"}}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        assert client.post(path, json=review).json()["status"]["allowed"] is False


def test_an_agent_may_what_agents_need(guarded: Live) -> None:
    pods = "/api/v1/namespaces/default/pods"
    with _as(guarded, Role.AGENT) as client:
        assert client.post(pods, json=_POD).status_code == 201
        target = {"target": {"kind": "Node", "name": "n"}}
        assert client.post(f"{pods}/p/binding", json=target).status_code == 201
        assert client.get("/api/v1/secrets").status_code == 403
        assert client.post("/api/v1/namespaces", json={"metadata": {"name": "x"}}).status_code == 403
        body = {"metadata": {"name": "proreus-schedulers"}}
        assert client.post("/api/v1/namespaces/kube-system/configmaps", json=body).status_code == 403
    with _as(guarded, Role.ADMIN) as client:
        assert client.delete(f"{pods}/p?gracePeriodSeconds=0").status_code == 200


def test_to_apply_what_is_not_there_needs_the_right_to_create(guarded: Live) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    labels = {"app": "web"}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _POD["spec"]},
        },
    }

    def apply(client: httpx.Client, **query: str) -> httpx.Response:
        kind = {"content-type": "application/apply-patch+yaml"}
        params = {"fieldManager": "test", **query}
        return client.patch(f"{path}/web", params=params, headers=kind, content=json.dumps(body))

    with _as(guarded, Role.AGENT) as agent, _as(guarded, Role.ADMIN) as admin:
        assert agent.post(path, json=body).status_code == 403
        for query in ({}, {"dryRun": "All"}, {"force": "true"}):
            refused = apply(agent, **query)
            assert refused.status_code == 403 and "cannot create" in refused.json()["message"]
        assert admin.get(f"{path}/web").status_code == 404
        assert apply(admin).status_code == 201
        assert apply(agent).status_code == 200
        assert admin.delete(f"{path}/web").status_code == 200


@pytest.mark.parametrize("verb", ["create", "update", "patch", "delete", "deletecollection"])
@pytest.mark.parametrize("resource", ["secrets", "namespaces", "configmaps", "services"])
def test_no_agent_changes_what_admins_keep(verb: str, resource: str) -> None:
    assert not allowed(Role.AGENT, Action(verb, resource))
    assert allowed(Role.ADMIN, Action(verb, resource))


def test_pages_of_other_sites_and_other_names_are_refused(guarded: Live) -> None:
    with _as(guarded, Role.ADMIN) as client:
        assert client.get("/api", headers={"host": "evil.example"}).status_code == 403
        assert client.get("/api", headers={"origin": "http://evil.example"}).status_code == 403
        assert client.get("/api", headers={"sec-fetch-site": "cross-site"}).status_code == 403
        own = f"http://127.0.0.1:{guarded.port}"
        assert client.get("/api", headers={"origin": own}).status_code == 200
        page = {"user-agent": "Mozilla/5.0"}
        plain = client.post("/api/v1/namespaces/default/pods", content=b"{}", headers=page)
        assert plain.status_code == 415


def test_bodies_are_bounded_in_size_depth_and_time(guarded: Live) -> None:
    pods = "/api/v1/namespaces/default/pods"
    with _as(guarded, Role.ADMIN) as client:
        typed = {"content-type": "application/json"}
        large = b'{"a":"' + b"x" * (3 * 1024 * 1024) + b'"}'
        assert client.post(pods, content=large, headers=typed).status_code == 413
        for deep in (b'{"a":' * 100 + b"1" + b"}" * 100, b"[" * 100_000, b'{"a":' * 2000):
            assert client.post(pods, content=deep, headers=typed).status_code == 400
        bomb = b"a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n"
        path = f"{pods}/p?fieldManager=m"
        answer = client.patch(path, content=bomb, headers={"content-type": "application/apply-patch+yaml"})
        assert answer.status_code == 400
    head = _head("POST", pods, "content-type: application/json", "content-length: 100")
    told, seconds = _raw(guarded, head + b'{"a"')
    assert b"408" in told.splitlines()[0]
    assert seconds < 30


def _head(method: str, path: str, *headers: str) -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        "host: localhost",
        f"authorization: Bearer {_TOKENS[Role.ADMIN]}",
        *headers,
    ]
    return "\r\n".join((*lines, "", "")).encode()


def _raw(door: Live, *pieces: bytes) -> tuple[bytes, float]:
    """What comes back until the server closes, and how long that took."""
    began, heard = time.monotonic(), b""
    with socket.create_connection(("127.0.0.1", door.port), timeout=60) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
            while piece := connection.recv(65536):
                heard += piece
        except ConnectionError:
            pass
    return heard, time.monotonic() - began


@pytest.mark.parametrize("rest", [b"", b"\r\n"], ids=["nothing", "a blank line"])
def test_a_connection_that_was_answered_is_idle_whatever_it_still_owes(guarded: Live, rest: bytes) -> None:
    head = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n"
    told, seconds = _raw(guarded, head + rest)
    assert told.endswith(b"ok") and seconds < 1.0 + 0.5 + 2.0, "an idle second, a look, and a slow machine"


@pytest.mark.parametrize(
    "pieces",
    [
        [b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: "],
        [b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n", b"\r\n"],
        [b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n" + b"x: y\r\n" * 200 + b"\r\n"],
        [b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 200_000],
        [
            b"GET /healthz HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n0\r\n",
            b"x: y\r\n" * 50_000,
        ],
        [b"\x00\x01\x02 nonsense\r\n\r\n"],
    ],
    ids=["half a head", "a line too many", "many headers", "a long head", "trailers", "no HTTP"],
)
def test_connections_that_dawdle_or_flood_are_closed(guarded: Live, pieces: list[bytes]) -> None:
    _, seconds = _raw(guarded, *pieces)
    assert seconds < 40


def test_answers_that_nobody_takes_end_the_connection(guarded: Live) -> None:
    ask = _head("GET", "/openapi/v2")
    with socket.create_connection(("127.0.0.1", guarded.port), timeout=60) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with pytest.raises(ConnectionError):
            for _ in range(200):
                connection.sendall(ask)
                time.sleep(0.05)
    with _as(guarded, Role.ADMIN) as client:
        assert client.get("/healthz").status_code == 200


def test_what_was_changed_and_refused_is_written_down(guarded: Live) -> None:
    with _as(guarded, Role.ADMIN) as client:
        client.post("/api/v1/namespaces/default/configmaps", json={"metadata": {"name": "noted"}})
    with guarded.client() as client:
        client.get("/api/v1/pods")
    assert guarded.options.audit is not None
    assert guarded.options.audit.stat().st_mode & 0o077 == 0
    entries = [json.loads(line) for line in guarded.options.audit.read_text().splitlines()]
    mine = [entry for entry in entries if entry["path"].endswith("/configmaps")][-1]
    assert (mine["user"], mine["role"], mine["verb"], mine["status"]) == ("admin-1", "admin", "create", 201)
    assert any(entry["status"] in (401, 429) for entry in entries)
    assert not any(token in guarded.options.audit.read_text() for token in _TOKENS.values())


def test_tls_is_spoken_and_nothing_else(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    with live(ApiOptions(credentials=(certificate, key))) as door:
        trust = ssl.create_default_context(cafile=str(certificate))
        answer = httpx.get(f"https://localhost:{door.port}/version", verify=trust)
        assert answer.json()["major"] == "1"
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://localhost:{door.port}/version")


def test_the_audit_log_turns_over(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit", most_bytes=1000, files=2)
    for number in range(100):
        log.write({"number": number}, 0.0)
    log.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audit", "audit.1", "audit.2"]
    assert all(path.stat().st_size <= 1000 for path in tmp_path.iterdir())
    assert json.loads((tmp_path / "audit").read_text().splitlines()[-1])["number"] == 99


def test_a_token_lets_in_by_the_header_alone_and_lands_in_no_log(
    guarded: Live, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, viewer = _TOKENS[Role.ADMIN], _TOKENS[Role.VIEWER]
    inside = f"/api/v1/namespaces/x/pods/y/proxy/token/{viewer}/api"
    escaped = "".join(f"%{ord(sign):02X}" for sign in admin)
    twice = escaped.replace("%", "%25")
    paths = [f"/token/{admin}/api/v1/nodes", inside, f"/api/{escaped}", f"/x/{twice}", f"/v1/x{admin}y"]
    paths += [f"/api?token={admin}", f"/v1/schedulers/{admin}?token={viewer}", f"/apis/a{admin}{viewer}b"]
    with guarded.client(**{"user-agent": f"tool/{admin}"}) as nobody, _as(guarded, Role.ADMIN) as ann:
        for path in paths:
            assert nobody.get(path).status_code in (401, 429), "a path is no place for a token"
            assert nobody.post(path, json={}).status_code in (401, 429)
            assert ann.post(path, json={}).status_code >= 400
            assert ann.delete(path).status_code >= 400

        async def fails(*_: object, **__: object) -> None:
            raise RuntimeError("told in the log of the process")

        monkeypatch.setattr(guarded.registry, "list", fails)
        assert ann.get(f"/api/v1/namespaces/{viewer}/pods").status_code == 500
    assert guarded.options.audit is not None
    for log in (guarded.options.audit.read_text(), caplog.text):
        assert "[token]" in log
        for token in (admin, viewer, escaped, twice):
            assert token not in log and token[:12] not in log


def test_no_namespace_goes_where_one_of_them_may_not() -> None:
    """A deletion of all namespaces is refused as a whole, before the first is marked."""
    names = ("aaa-first", "zzz-last")
    with live() as door, door.client() as client:
        for name in names:
            assert client.post("/api/v1/namespaces", json={"metadata": {"name": name}}).status_code == 201
        answer = client.delete("/api/v1/namespaces")
        assert answer.status_code == 403 and "may not be deleted" in answer.json()["message"]
        for name in names:
            namespace = client.get(f"/api/v1/namespaces/{name}").json()
            assert "deletionTimestamp" not in namespace["metadata"]
        chosen = client.delete("/api/v1/namespaces?fieldSelector=metadata.name=aaa-first")
        assert chosen.status_code == 200
