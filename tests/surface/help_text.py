"""What a help text promises: its flags, each with what it takes and its default. The prose may change."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_TITLE = re.compile(r"[╭─ ]*(positional arguments|[\w. ]*options)[╮─ ]*")
_FLAG = re.compile(r" {2}--?\w")
_INDENTED = re.compile(r" {2}\w|  \[")
_DEFAULT = re.compile(r"\(((?:default|repeatable|required|optional)[^()]*(?:\([^()]*\)[^()]*)*)\)\s*$")


@dataclass
class _Entry:
    """A flag while its lines are read."""

    invocation: str
    help: list[str] = field(default_factory=list)


def promises(text: str) -> dict[str, str]:
    """flag -> "METAVAR or {choices} (default: x)", from a help text of one column."""
    entries: list[_Entry] = []
    positional = False
    for raw in _ANSI.sub("", text).splitlines():
        line = raw.replace("│", " ").rstrip()  # the frame, which a pipe without Unicode does not have
        if title := _TITLE.fullmatch(line):
            positional = title[1] == "positional arguments"
        elif _FLAG.match(line) or (positional and _INDENTED.match(line)):
            invocation, _, rest = re.sub(r"\s{2,}", "\0", line.strip()).partition("\0")
            entries.append(_Entry(invocation, [rest]))
        elif entries and line.startswith("   "):
            entries[-1].help.append(line.strip())
    return dict(_promise(entry, " ".join(entry.help).strip()) for entry in entries)


def _promise(entry: _Entry, said: str) -> tuple[str, str]:
    flag, _, takes = entry.invocation.partition(" ")
    if flag.endswith(","):  # --log-json, --no-log-json
        flag, takes = flag.removesuffix(","), f"or {takes}"
    match = _DEFAULT.search(said)
    return flag, f"{takes} ({match[1] if match else ''})".strip()
