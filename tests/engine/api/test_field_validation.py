"""What clients are told of fields that a kind does not have."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import msgspec
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from proreus.engine.api.server.duplicate_fields import duplicates_in_json, surely_single
from tests.engine.api.live import live

_PATH = "/api/v1/namespaces/default/configmaps"
_TOLD = ['299 - "unknown field \\"metadata.lables\\""', '299 - "unknown field \\"dta\\""']


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with live() as door, door.client() as connected:
        yield connected


def _send(client: httpx.Client, how: str, name: str, validation: str) -> httpx.Response:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "lables": {"a": "b"}},
        "dta": {"a": "b"},
    }
    query = {"fieldManager": "test", **({"fieldValidation": validation} if validation else {})}
    if how == "POST":
        return client.post(_PATH, params=query, json=body)
    media = {"content-type": f"application/{how}"}
    return client.patch(f"{_PATH}/{name}", params=query, headers=media, content=json.dumps(body))


@pytest.mark.parametrize("how", ["POST", "apply-patch+yaml", "merge-patch+json"])
def test_unknown_fields_are_warned_of_unless_another_answer_is_asked_for(
    client: httpx.Client, how: str
) -> None:
    for validation, told in (("", _TOLD), ("Warn", _TOLD), ("Ignore", []), ("Strict", None)):
        name = f"{how[:5].lower()}-{validation.lower() or 'default'}"
        if how == "merge-patch+json":
            assert client.post(_PATH, json={"metadata": {"name": name}}).status_code == 201
        answer = _send(client, how, name, validation)
        if told is None:
            assert answer.status_code == 400 and 'unknown field "dta"' in answer.json()["message"]
        else:
            assert answer.is_success and "dta" not in answer.json()
            assert sorted(answer.headers.get_list("warning")) == sorted(told)


def test_another_word_for_it_is_refused(client: httpx.Client) -> None:
    answer = _send(client, "POST", "odd", "Loud")
    assert answer.status_code == 400 and "fieldValidation" in answer.json()["message"]


_TWICE = """{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "%s",
 "labels": {"a": "1", "a": "2"}}, "odd": 1, "data": {"key": "first"}, "data": {"key": "second"}}"""


def test_fields_that_stand_twice_are_told_beside_unknown_ones(client: httpx.Client) -> None:
    media = {"content-type": "application/json"}
    strict = client.post(
        _PATH, params={"fieldValidation": "Strict"}, headers=media, content=_TWICE % "strict"
    )
    assert strict.status_code == 400
    assert strict.json()["message"].endswith(
        'strict decoding error: unknown field "odd", duplicate field "data", '
        'duplicate field "metadata.labels.a"'
    )
    warned = client.post(_PATH, headers=media, content=_TWICE % "warned")
    assert warned.status_code == 201 and warned.json()["data"] == {"key": "second"}
    assert '299 - "duplicate field \\"data\\""' in warned.headers.get_list("warning")
    ignored = client.post(
        _PATH, params={"fieldValidation": "Ignore"}, headers=media, content=_TWICE % "ignored"
    )
    assert ignored.status_code == 201 and not ignored.headers.get_list("warning")


def test_the_same_in_yaml_and_inside_lists(client: httpx.Client) -> None:
    body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yaml}\ndata: {a: x, b: y, a: z}\n"
    query = {"fieldManager": "test", "fieldValidation": "Strict"}
    media = {"content-type": "application/apply-patch+yaml"}
    answer = client.patch(f"{_PATH}/yaml", params=query, headers=media, content=body)
    assert answer.status_code == 400 and 'duplicate field "data.a"' in answer.json()["message"]
    pod = '{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "b", "image": "c"}]}}'
    refused = client.post(
        "/api/v1/namespaces/default/pods",
        params={"fieldValidation": "Strict"},
        headers={"content-type": "application/json"},
        content=pod,
    )
    assert refused.status_code == 400
    assert 'duplicate field "spec.containers[0].image"' in refused.json()["message"]


def test_a_table_of_what_has_none_is_not_acceptable(client: httpx.Client) -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"namespace": "default", "verb": "get", "resource": "services"}},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    accept = {"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
    assert client.post(path, json=review, headers=accept).status_code == 406
    either = {"accept": "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"}
    assert client.post(path, json=review, headers=either).status_code == 201
    assert client.post(path, json=review).status_code == 201


_TEXTS = st.sampled_from(["a", "b", ":", ":a", "a:", " :", "é", '"', "\\", '":'])
_BODIES = st.recursive(
    _TEXTS.map(json.dumps) | st.sampled_from(["1", "null", "1e400", "123456789012345678901234567890"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]")
        | st.lists(
            st.tuples(_TEXTS.map(json.dumps), st.sampled_from([":", ": ", " :", "\n:"]), inner), max_size=4
        ).map(lambda members: f"{{{', '.join(''.join(member) for member in members)}}}")
    ),
    max_leaves=12,
)


@settings(max_examples=300)
@given(_BODIES)
def test_who_is_said_to_have_every_field_once_has(body: str) -> None:
    """Told from the number of names, for which the body is not read a second time."""
    written = body.encode()
    try:
        document = msgspec.json.decode(written)
    except (msgspec.MsgspecError, ValueError):
        return
    if surely_single(written, document):
        event("not read again")
        assert duplicates_in_json(written) == ()


def test_a_plain_body_is_not_read_again() -> None:
    written = json.dumps({"metadata": {"name": "p", "labels": {":": ":x"}}, "spec": {"containers": [{}]}})
    assert surely_single(written.encode(), json.loads(written))
    assert not surely_single(b'{"a":1,"a":2}', {"a": 2})
    assert not surely_single(b'{"a":1,"a":2,"b" :3}', {"a": 2, "b": 3})
