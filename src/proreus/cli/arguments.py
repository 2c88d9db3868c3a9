"""Arguments that every verb shares, and the one way they are parsed.

tyro reads a frozen dataclass per verb; flags accept `-` and `_` alike. What it complains about is
folded into one line, so that every bad command ends the same way: one line on stderr, exit code 2.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar

import tyro

from proreus.cli.output import Output, check_json
from proreus.model.errors import UsageError, unknown_name

Arguments = TypeVar("Arguments")


@dataclass(frozen=True)
class CommonArguments(Output):
    """Flags that every verb has; training has the seed among the settings of its algorithm."""

    seed: int = 0
    """The first seed; the same seed gives the same result."""

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise UsageError(f"--seed {self.seed} is negative")


class JsonLines(logging.Formatter):
    """One JSON object a log record."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line of JSON."""
        entry = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry.update(getattr(record, "fields", {}))
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


class PlainLines(logging.Formatter):
    """One line a log record, with its fields behind the message."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """The message and the fields; whatever a field holds stays on the line."""
        said = super().formatMessage(record)
        fields = getattr(record, "fields", {})
        return " ".join((said, *(f"{name}={_field(value)}" for name, value in fields.items())))


def _field(value: object) -> str:
    text = str(value)
    plain = text.isascii() and text.isprintable() and text and not set(text) & set(' "=')
    return text if plain else json.dumps(text)


def prepare(common: Output) -> None:
    """What every verb does first: see that its result can be written, send the log to stderr."""
    check_json(common)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if common.log_json else PlainLines())
    # Where its caches lie, in a home that cannot be written, is nothing that a reader can use.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    logger = logging.getLogger("proreus")
    logger.handlers[:] = [handler]
    logger.setLevel(common.log_level.upper())
    logger.propagate = False


def parse(kind: type[Arguments], command: str, words: Sequence[str], description: str) -> Arguments:
    """`words` as an instance of `kind`; `command` is what the user typed before them."""
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(
                kind,
                prog=command,
                args=list(words),
                description=description,
                config=(tyro.conf.OmitArgPrefixes,),
            )
    except SystemExit as end:
        if not end.code:
            raise
        message = _one_line(complaint.getvalue())
        raise UsageError(f"{message}{_nearest_flag(message, kind)} (see {command} --help)") from None


def parse_named(
    kind: type[Arguments],
    verb: str,
    subject: tuple[str, Sequence[str]],
    words: Sequence[str],
    description: str,
) -> tuple[str, Arguments]:
    """`verb NAME --flags`: the name, which must be known, and the flags; subject = (what it is, names)."""
    what, names = subject
    if not words or words[0].startswith("-"):
        parse(kind, f"proreus {verb} {names[0]}", words, description)
        raise UsageError(f"name a {what}: {', '.join(names)}")
    name, *rest = words
    if name not in names:
        raise unknown_name(what, name, names)
    return name, parse(kind, f"proreus {verb} {name}", rest, description)


def flag_names(kind: type[Any]) -> list[str]:
    """The flags of a verb without their dashes, `no-` forms included."""
    return [flag.removeprefix("--") for flag in _flags(kind)]


def _nearest_flag(message: str, kind: type[Any]) -> str:
    """For a flag that there is none of: the one that may be meant."""
    unknown = re.match(r"Unrecognized options: .*?--([\w-]+)", message)
    if unknown is None:
        return ""
    near = get_close_matches(unknown[1].replace("_", "-"), flag_names(kind), n=1, cutoff=0.7)
    return f"; did you mean --{near[0]}?" if near else ""


def _flags(kind: type[Any]) -> list[str]:
    """All flags, as the help text has them."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        tyro.cli(kind, args=["--help"], config=(tyro.conf.OmitArgPrefixes,))
    return flags_in(text.getvalue())


def flags_in(text: str) -> list[str]:
    """The flags that a help text has."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return re.findall(r"(?:^[\s│|]*|, )(--[a-z][a-z0-9-]*)", plain, re.MULTILINE)


def _one_line(said: str) -> str:
    """tyro's complaint in one line: what stands between its title and the hints below it.

    However it is framed: a line without a letter or digit is a rule, and the first line is the title.
    """
    plain = re.sub(r"\x1b\[[0-9;]*m|[\u2500-\u257f]", "", said)
    lines = [line.strip() for line in plain.splitlines()]
    shown = [line if re.search(r"\w", line) else "" for line in lines[1:]] or lines
    first = next((place for place, line in enumerate(shown) if line), 0)
    last = next((place for place, line in enumerate(shown) if place > first and not line), len(shown))
    return " ".join(shown[first:last]) or "the command could not be read"


def without(kind: type[Any], hidden: Mapping[str, Any]) -> type[Any]:
    """The same dataclass, some of its fields no flags."""
    if not hidden:
        return kind
    suppressed = [
        (name, Annotated[Any, tyro.conf.Suppress], field(default=value)) for name, value in hidden.items()
    ]
    return make_dataclass(kind.__name__, suppressed, bases=(kind,), frozen=True)
