"""Recorded requests: Azure 2023, Mooncake, ServeGen rates, splitwise-sim, any table of three columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import numpy as np

from proreus.data.table import TableRow, read_filled_table, read_headless
from proreus.data.text_file import read_lines
from proreus.kernels.arrays import F64
from proreus.model.errors import InputError
from proreus.worlds.inference.model.prefixes import blocks_of
from proreus.worlds.inference.model.requests import RequestTrace, trace_of

SERVEGEN_SECONDS = 600.0
"""Of one window of ServeGen's rates."""
MOONCAKE_BLOCK = 512
"""Tokens that one of its hash_ids stands for, with all before them."""
_MOST_TOKENS = 1 << 30
"""Of a prompt or an output: traces hold them in 32 bits."""
_ANY = ("arrival", "prompt", "output")
_MOONCAKE = ("timestamp", "input_length", "output_length")


def read_azure(path: Path) -> RequestTrace:
    """TIMESTAMP,ContextTokens,GeneratedTokens; it begins with the first request."""
    rows = read_filled_table(path, required=("TIMESTAMP", "ContextTokens", "GeneratedTokens"))
    arrival = np.array([_moment(row) for row in rows])
    return _ordered(path, arrival - arrival.min(), rows, ("ContextTokens", "GeneratedTokens"))


def _moment(row: TableRow) -> float:
    text = row.text("TIMESTAMP")
    try:
        seconds, _, fraction = text.partition(".")
        return datetime.fromisoformat(seconds).timestamp() + float(f"0.{fraction or 0}")
    except ValueError as error:
        raise row.fail("TIMESTAMP", str(error)) from None


def read_own(path: Path) -> RequestTrace:
    """A file of one's own in any of the forms that are known here, told apart by its first line."""
    first = next(line for line in read_lines(path) if line.strip()).strip()
    if first.startswith("{"):
        return read_mooncake(path)
    columns = {name.strip() for name in first.split(",")}
    if "TIMESTAMP" in columns:
        return read_azure(path)
    return read_splitwise(path) if "arrival_timestamp" in columns else read_any(path)


def read_any(path: Path) -> RequestTrace:
    """arrival (seconds), prompt, output (tokens)."""
    rows = read_filled_table(path, required=_ANY)
    return _ordered(path, np.array([row.number("arrival") for row in rows]), rows, _ANY[1:])


def read_splitwise(path: Path) -> RequestTrace:
    """arrival_timestamp, prompt_size, token_size."""
    rows = read_filled_table(
        path,
        required=("arrival_timestamp", "prompt_size", "token_size"),
        optional=("request_id", "request_type", "application_id", "batch_size"),
    )
    arrival = np.array([row.number("arrival_timestamp") for row in rows])
    return _ordered(path, arrival, rows, ("prompt_size", "token_size"))


def _ordered(path: Path, arrival: F64, rows: Sequence[TableRow], tokens: tuple[str, ...]) -> RequestTrace:
    prompt, output = (
        np.array([row.integer(name, minimum=1, maximum=_MOST_TOKENS) for row in rows]) for name in tokens
    )
    order = np.argsort(arrival, kind="stable")
    return trace_of(path.stem, arrival[order], prompt[order], output[order])


def read_mooncake(path: Path) -> RequestTrace:
    """One JSON object a line: timestamp (milliseconds), input_length, output_length, hash_ids.

    Where there are hash_ids, those of whole blocks of 512 tokens are kept.
    """
    found: list[tuple[float, int, int]] = []
    blocks: list[list[int]] = []
    numbers: dict[object, int] = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        entry = _json_object(path, number, line)
        row = TableRow(path, number, {name: _as_cell(entry[name]) for name in _MOONCAKE if name in entry})
        prompt_tokens, output_tokens = (row.integer(name, maximum=_MOST_TOKENS) for name in _MOONCAKE[1:])
        found.append((row.number("timestamp") / 1000.0, prompt_tokens, output_tokens))
        names = entry.get("hash_ids", [])
        if not isinstance(names, list) or any(isinstance(name, list | dict) for name in names):
            raise row.fail("hash_ids", "is not a list of numbers or names")
        whole = names[: prompt_tokens // MOONCAKE_BLOCK]
        blocks.append([numbers.setdefault(name, len(numbers)) for name in whole])
    if not found:
        raise InputError("has no requests", file=path)
    arrival, prompt, output = (np.array(column) for column in zip(*found, strict=True))
    order = np.argsort(arrival, kind="stable")
    prefix = blocks_of([blocks[place] for place in order], MOONCAKE_BLOCK) if any(blocks) else None
    prompt, output = np.maximum(prompt, 1)[order], np.maximum(output, 1)[order]
    return trace_of(path.stem, arrival[order], prompt, output, prefix)


def _json_object(path: Path, line: int, text: str) -> dict[str, object]:
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        raise InputError("is no JSON object", file=path, line=line)
    return entry


def _as_cell(value: object) -> str:
    """As a table would have it: a number that JSON has as one, else what will not be taken for one."""
    return str(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else repr(value)


def read_servegen(folder: Path) -> F64:
    """[windows] requests a second of all clients of a service, ten minutes a window."""
    files = sorted(folder.glob("chunk-*-trace.csv"))
    if not files:
        raise InputError("has no file chunk-*-trace.csv", file=folder)
    total: dict[int, float] = {}
    names = ("start", "rate", "variation", "distribution", "shape", "scale")
    for file in files:
        for row in read_headless(file, {6: names}, delimiter=","):
            window = int(row.number("start") // SERVEGEN_SECONDS)
            total[window] = total.get(window, 0.0) + row.number("rate")
    return np.array([total.get(window, 0.0) for window in range(max(total) + 1)])
