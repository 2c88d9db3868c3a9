"""What clients are told of fields that a kind does not have."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

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
