"""The one exception tree. Whoever raises says what is wrong; the command line decides the exit code.

ProreusError
├── InputError        the user's data is wrong: names file, line and field   (exit 2)
├── UsageError        the user's command is wrong: unknown name, bad option  (exit 2)
└── WorkError         the work was understood and failed                     (exit 1)
    └── IllegalDecision   a policy chose what the rules forbid
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

_MOST_NAMES = 30
_FEW = 3
"""Of a family: so many are named one by one."""


class ProreusError(Exception):
    """Base of every error that Proreus raises on purpose."""


class InputError(ProreusError):
    """Bad input data. The message is one line: `file:line: field: what is wrong`."""

    def __init__(
        self,
        message: str,
        *,
        file: Path | str | None = None,
        line: int | None = None,
        field: str | None = None,
    ) -> None:
        self.file, self.line, self.field = file, line, field
        where = "" if file is None else str(file) + ("" if line is None else f":{line}")
        super().__init__(": ".join(part for part in (where, field or "", message) if part))


class UsageError(ProreusError):
    """A command that cannot mean anything: an unknown policy, an impossible option."""


class WorkError(ProreusError):
    """The request was sound and the work on it failed."""


class IllegalDecision(WorkError):
    """A policy returned a decision that the rules forbid; a world never carries it out."""


def needs_extra(extra: str) -> str:
    """What to install, as a clone has it and as an installed package has it."""
    return (
        f"needs the extra `{extra}`: pip install -c constraints.txt -e '.[{extra}]' in a clone, "
        f"or pip install 'proreus[{extra}]'"
    )


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that is in no catalogue, with the nearest known one."""
    names = sorted(known)
    near = [close_match for close_match in get_close_matches(name, names, n=2) if close_match != name]
    hint = f"; did you mean {near[0]!r}?" if near else ""
    listed = names if len(names) <= _MOST_NAMES else _by_family(names)
    more = f" and {len(listed) - _MOST_NAMES} more" if len(listed) > _MOST_NAMES else ""
    return UsageError(f"unknown {kind} {name!r}{hint} (known: {', '.join(listed[:_MOST_NAMES])}{more})")


def _by_family(names: Sequence[str]) -> list[str]:
    """Sorted names, a large family (`openb-mix/cpu150`, ...) as one: a list that is cut hides all that come
    later in the alphabet."""
    members = Counter(_family(name) for name in names)
    large = {family for family, count in members.items() if family and count > _FEW}
    return list(dict.fromkeys(f"{_family(name)}/*" if _family(name) in large else name for name in names))


def _family(name: str) -> str:
    return name.rpartition("/")[0]
