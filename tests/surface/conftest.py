"""Every test starts in a folder of its own, without a data folder, on a terminal for one column of help."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from proreus.cli.main import main
from tests.cli.runner import Ended, Proreus


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Relative paths lead into the test's folder; the logger is left as it was found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PROREUS_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    logger = logging.getLogger("proreus")
    before = (logger.handlers[:], logger.level, logger.propagate)
    yield
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


@pytest.fixture
def proreus(capsys: pytest.CaptureFixture[str]) -> Proreus:
    """Runs a command line in this process."""

    def run(*words: str) -> Ended:
        capsys.readouterr()
        code = main(words)
        said = capsys.readouterr()
        return Ended(code, said.out, said.err)

    return run
