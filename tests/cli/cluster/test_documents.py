"""Objects from files: what YAML means, where they are from, and what is too much."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from proreus.cli.cluster.documents import as_yaml, read_all
from proreus.model.errors import InputError, UsageError
from tests.cli.cluster.conftest import WEB

_IGNORES_SIGTERM = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.execvp(sys.argv[1], sys.argv[1:])
"""
OBJECT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


def test_values_are_what_yaml_means_and_dates_stay_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(
        OBJECT
        + "data: {a: 1, b: 1.5, c: true, d: null, e: '1', f: 2024-01-01, g: 0o17, h: 1e3, i: ~, j: on}\n"
    )
    (document,) = read_all([str(path)])
    assert document.value["data"] == {
        "a": 1,
        "b": 1.5,
        "c": True,
        "d": None,
        "e": "1",
        "f": "2024-01-01",
        "g": "0o17",
        "h": "1e3",
        "i": None,
        "j": True,
    }


def test_a_folder_is_read_in_order_and_lists_are_opened(tmp_path: Path) -> None:
    (tmp_path / "b.yml").write_text(OBJECT.replace("name: a", "name: last"))
    (tmp_path / "a.yaml").write_text(f"---\n{OBJECT}---\n---\n{OBJECT.replace('name: a', 'name: b')}")
    (tmp_path / "a2.json").write_text(
        '{"kind": "List", "items": [{"kind": "Pod", "metadata": {"name": "c"}}]}'
    )
    (tmp_path / "note.txt").write_text("not this")
    documents = read_all([str(tmp_path)])
    assert [document.value["metadata"]["name"] for document in documents] == ["a", "b", "c", "last"]
    assert documents[1].line == 7


def test_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(OBJECT))
    assert read_all(["-"])[0].value["metadata"] == {"name": "a"}


def test_aliases_cannot_fill_the_memory(tmp_path: Path) -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]")
    (tmp_path / "bomb.yaml").write_text("kind: ConfigMap\n" + "\n".join(lines))
    with pytest.raises(InputError, match="more than 1,000,000 values"):
        read_all([str(tmp_path / "bomb.yaml")])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: [", "not valid YAML"),
        ("a: 1\n", "kind: the field is missing"),
        ("", "empty"),
        ("- a\n", "mapping"),
    ],
)
def test_what_is_no_object_is_told_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(InputError, match=says) as exception_info:
        read_all([str(tmp_path / "x.yaml")])
    assert str(exception_info.value).startswith(str(tmp_path / "x.yaml"))


def test_an_address_is_told_how_to_be_read() -> None:
    with pytest.raises(UsageError, match=r"curl -fsSL https://x\.example/web\.yaml \| proreus apply -f -"):
        read_all(["https://x.example/web.yaml"])


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="-f FILE"):
        read_all([])
    with pytest.raises(InputError, match="no such file"):
        read_all([str(tmp_path / "gone.yaml")])
    with pytest.raises(InputError, match="the folder has no"):
        read_all([str(tmp_path)])


def test_yaml_keeps_the_order_and_the_lines() -> None:
    shared = {"x": 1}
    text = as_yaml({"b": "one\ntwo\n", "a": shared, "c": shared, "d": "true"})
    assert text == "b: |\n  one\n  two\na:\n  x: 1\nc:\n  x: 1\nd: 'true'\n"


def test_the_example_ends_when_it_is_told_to() -> None:
    """The first process of a container ignores SIGTERM unless it says otherwise: deletion took 30 s."""
    deployment = read_all([str(WEB)])[0].value
    (web,) = deployment["spec"]["template"]["spec"]["containers"]
    words = [*web["command"], *web.get("args", ())]
    with subprocess.Popen([sys.executable, "-c", _IGNORES_SIGTERM, *words], stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline().startswith(b"Serving HTTP on 127.0.0.1 port ")
            server.terminate()
            assert server.wait(10) == 0
        finally:
            server.kill()
