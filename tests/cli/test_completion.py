"""`proreus --completion`: what a shell offers is what there is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.runner import Proreus, assert_refused

ASK = """
source ./script
COMP_WORDS=(proreus {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _proreus; echo "${{COMPREPLY[@]}}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("si", "simulate"),
        ("compare v", "vms"),
        ("compare vms --pol", "--policies"),
        ("data fetch --mi", "--mirror"),
        ("demo --qu", "--quiet"),
        ("models train --upd", "--updates"),
        ("nonsense --x", ""),
    ],
)
def test_bash_is_offered_what_there_is(words: str, offered: str, script: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", ASK.format(words=words)], cwd=script.parent, capture_output=True, text=True
    )
    assert (done.stdout.strip(), done.stderr) == (offered, "")


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script for bash, made once."""
    from proreus.cli.completion import completion
    from proreus.cli.main import VERBS, main

    path = tmp_path_factory.mktemp("completion") / "script"
    path.write_text(completion("bash", VERBS, main))
    return path


def test_a_shell_that_is_not_known(proreus: Proreus) -> None:
    assert_refused(proreus("--completion", "fish"), 2, "unknown shell 'fish'", "bash, zsh")
    assert_refused(proreus("--completion"), 2, "bash, zsh")
