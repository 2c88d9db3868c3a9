"""The hints of `proreus up` can be typed in another terminal, whatever PATH says there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from proreus.cli.program_name import program_name


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        (".venv/bin/proreus", ".venv/bin/proreus"),
        ("/a folder/proreus", "'/a folder/proreus'"),
        ("/lib/proreus/__main__.py", f"{sys.executable} -m proreus"),
    ],
)
def test_a_hint_names_the_program_as_it_was_typed_unless_a_shell_finds_it(
    typed: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [typed, "up"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program_name() == hint
    (tmp_path / "proreus").write_text("#!/bin/sh\n")
    (tmp_path / "proreus").chmod(0o755)
    assert program_name() == "proreus"
