"""The log goes to stderr, as much of it as was asked for, and as JSON lines on request."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from proreus.cli import data_list
from proreus.cli.main import main
from proreus.data.catalogue import Dataset, known


def chatter(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """What reaches stderr when every level is logged after a start with these flags."""
    assert main(["data", "list", *flags]) == 0
    logger = logging.getLogger("proreus.test")
    logger.debug("a debug")
    logger.info("an info")
    logger.warning("a %s with\na break and ü", "warning")
    try:
        raise ValueError("because")
    except ValueError:
        logger.exception("an error")
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_json_lines(level: str, expected: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    lines = chatter(capsys, "--log-json", "--log-level", level).splitlines()
    entries = [json.loads(line) for line in lines]
    assert [entry["level"] for entry in entries] == expected
    for entry in entries:
        assert set(entry) - {"exception"} == {"time", "level", "logger", "message"}
        assert entry["logger"] == "proreus.test"
    assert "ValueError: because" in entries[-1]["exception"]
    if "warning" in expected:
        assert entries[expected.index("warning")]["message"] == "a warning with\na break and ü"


def test_plain_lines_at_the_default_level(capsys: pytest.CaptureFixture[str]) -> None:
    text = chatter(capsys)
    assert "WARNING proreus.test: a warning" in text and "ERROR proreus.test: an error" in text
    assert "a debug" not in text and "an info" not in text


def test_two_commands_in_one_process_do_not_log_twice(capsys: pytest.CaptureFixture[str]) -> None:
    chatter(capsys)
    assert chatter(capsys, "--log-json", "--log-level", "error").count("an error") == 1


def test_results_and_log_do_not_mix(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def known_and_said(datasets: Mapping[str, Dataset], folder: Path | None) -> dict[str, Dataset]:
        logging.getLogger("proreus.traces").warning("looking")
        return known(datasets, folder)

    monkeypatch.setattr(data_list, "known", known_and_said)
    assert main(["data", "list", "--log_json"]) == 0
    said = capsys.readouterr()
    assert {json.loads(line)["message"] for line in said.err.splitlines()} == {"looking"}
    assert "looking" not in said.out


@pytest.mark.parametrize(
    "words", [("simulate", "pods"), ("compare", "pods", "--seeds", "1", "--processes", "1", "--out", "out")]
)
def test_debug_logging_of_real_work_is_json_lines(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--log-level", "debug", "--log-json"]) == 0
    for line in capsys.readouterr().err.splitlines():
        assert set(json.loads(line)) >= {"time", "level", "logger", "message"}
