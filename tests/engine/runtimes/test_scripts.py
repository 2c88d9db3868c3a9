"""What the command of a simulated container would come to, read and not run."""

from __future__ import annotations

import subprocess
import time
from typing import Any

import pytest

from proreus.engine.runtimes.simulated.missing_images import is_missing
from proreus.engine.runtimes.simulated.scripts import ToldEnd, told_end

ODD_FAILS = "if [ $(expr ${INDEX} % 2) -eq 0 ]; then exit 0; else exit 3; fi"
NESTED = """
if [ $INDEX -gt 0 ]; then
  if [ "$NAME" = "a" ]; then
    exit 4
  else
    exit 5
  fi
fi
false
"""


def told(*words: str, **variables: str) -> ToldEnd | None:
    env = [{"name": name, "value": value} for name, value in variables.items()]
    container: dict[str, Any] = {"name": "main", "command": list(words), "env": env}
    return told_end({"metadata": {"name": "p"}}, container)


@pytest.mark.parametrize(
    ("words", "end"),
    [
        (("false",), ToldEnd(1, 0)),
        (("/bin/true",), ToldEnd(0, 0)),
        (("sleep", "3600"), ToldEnd(0, 3600)),
        (("sleep", "2m"), ToldEnd(0, 120)),
        (("sh", "-c", "exit 1"), ToldEnd(1, 0)),
        (("/bin/sh", "-c", "echo hello; sleep 0.5\nexit 7"), ToldEnd(7, 0.5)),
        (("sh", "-c", "false"), ToldEnd(1, 0)),
        (("sh", "-c", "false; exit"), ToldEnd(1, 0)),
        (("sh", "-c", "# nothing\n"), ToldEnd(0, 0)),
    ],
)
def test_a_command_that_can_be_told(words: tuple[str, ...], end: ToldEnd) -> None:
    assert told(*words) == end


@pytest.mark.parametrize(
    "words",
    [
        ("nginx",),
        ("sh", "-c", "curl example.com; exit 1"),
        ("sh", "-c", "exit $UNKNOWN"),
        ("sh", "-c", "sleep 1 & wait"),
        ("sh", "-c", "while true; do sleep 1; done"),
        ("sh", "-c", "if grep -q x /file; then exit 1; fi"),
        ("sh", "-c", "if [ 1 -eq 1 ]; then exit 1"),
        ("sh", "-c", "exit many"),
        ("sleep", "soon"),
        ("python", "-c", "exit 1"),
    ],
)
def test_of_any_other_nothing_is_known(words: tuple[str, ...]) -> None:
    assert told(*words) is None
    assert told_end({"metadata": {}}, {"name": "main", "args": ["false"]}) is None, "the image is not known"


def test_an_index_comes_from_the_environment_or_an_annotation() -> None:
    assert told("sh", "-c", ODD_FAILS, INDEX="2") == ToldEnd(0, 0)
    assert told("sh", "-c", ODD_FAILS, INDEX="3") == ToldEnd(3, 0)
    field = {"fieldRef": {"fieldPath": "metadata.annotations['batch/index']"}}
    container = {"command": ["sh", "-c", ODD_FAILS], "env": [{"name": "INDEX", "valueFrom": field}]}
    assert told_end({"metadata": {"annotations": {"batch/index": "5"}}}, container) == ToldEnd(3, 0)


@pytest.mark.parametrize("script", [ODD_FAILS, NESTED, "exit 6", "false; echo a", "sleep 0.2; exit 9"])
@pytest.mark.parametrize("variables", [{"INDEX": "0", "NAME": "a"}, {"INDEX": "3", "NAME": "a"}])
def test_a_real_shell_agrees(script: str, variables: dict[str, str]) -> None:
    began = time.monotonic()
    real = subprocess.run(
        ["sh", "-c", script],
        env={**variables, "PATH": "/usr/bin:/bin"},
        check=False,
        capture_output=True,
        timeout=30,
    )
    end = told("sh", "-c", script, **variables)
    assert end is not None and end.exit_code == real.returncode
    assert time.monotonic() - began >= end.seconds


def test_which_images_say_that_they_do_not_exist() -> None:
    for image in ("webserver:404", "registry.invalid/a", "invalid/a:1", "x.invalid:5000/a/b@sha256:00"):
        assert is_missing(image), image
    for image in ("nginx", "nginx:1.404", "localhost:404/a", "a.invalid", "invalid", "team/invalid:1", ""):
        assert not is_missing(image), image
