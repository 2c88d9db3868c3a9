"""What a simulated container's command would come to, where that can be told by reading it.

Nothing is run. `true`, `false`, `sleep N`, `exit N`, `echo` and comparisons of variables and numbers are
understood, alone or in a `sh -c` script with `if`; of any other command nothing is known, and its container
does what is drawn for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

_SHELLS = ("sh", "bash", "ash", "dash")
_QUIET = ("echo", "printf", ":", "true", "set", "trap")
"""Commands that end well, whatever their words are."""
_LONGEST = 4096
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_VARIABLE = re.compile(r"\$\{(\w+)\}|\$\((\w+)\)|\$(\w+)")
_REMAINDER = re.compile(r"\$\(\s*expr\s+(\S+)\s+%\s+(\d+)\s*\)|\$\(\(\s*(\S+)\s*%\s*(\d+)\s*\)\)")
_COMPARISON = re.compile(r"\[\s+(\S+)\s+(-eq|-ne|-lt|-le|-gt|-ge|=|==|!=)\s+(\S+)\s+\]")


@dataclass(frozen=True, slots=True)
class ToldEnd:
    """How a command ends."""

    exit_code: int
    seconds: float
    """That it sleeps before."""


class _Unknown(Exception):
    """It cannot be told."""


def told_end(pod: Mapping[str, Any], container: Mapping[str, Any]) -> ToldEnd | None:
    """How the container's command ends; None where reading it does not tell."""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    if not container.get("command") or sum(map(len, words)) > _LONGEST:
        return None  # what the image would run is not known
    variables = _variables(pod, container)
    try:
        name = PurePosixPath(words[0]).name
        if name in _SHELLS and len(words) >= 3 and words[1] in ("-c", "-ec", "-ce"):
            return _Script(variables).end(words[2])
        return _Script(variables).simple(words)
    except (_Unknown, ValueError):
        return None


def _variables(pod: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, str]:
    """Those whose values stand in the spec, or in the pod's metadata."""
    variables: dict[str, str] = {}
    for entry in container.get("env") or ():
        path = ((entry.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath", "")
        stated = re.fullmatch(r"metadata\.(annotations|labels)\['([^']+)'\]", path)
        if "value" in entry:
            variables[entry["name"]] = str(entry["value"])
        elif stated:
            variables[entry["name"]] = str((pod["metadata"].get(stated[1]) or {}).get(stated[2], ""))
        elif path == "metadata.name":
            variables[entry["name"]] = str(pod["metadata"]["name"])
    return variables


class _Script:
    """Statement by statement; an `exit` ends it."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._slept = 0.0
        self._last = 0

    def simple(self, words: Sequence[str]) -> ToldEnd:
        """One command without a shell."""
        self._run(" ".join(self._filled(word) for word in words))
        return ToldEnd(self._last, self._slept)

    def end(self, script: str) -> ToldEnd:
        """All of a script."""
        if re.search(r"[|&<>`\\*?~]|\$\?|\b(while|for|case|until|function)\b", script):
            raise _Unknown
        statements = [part.strip() for part in re.split(r"[;\n]", self._filled(script))]
        left = [part for part in statements if part and not part.startswith("#")]
        code = self._block(left)
        return ToldEnd(self._last if code is None else code, self._slept)

    def _block(self, left: list[str]) -> int | None:
        """Take statements until none is left or a block ends; the code of an `exit` on the way."""
        while left and not re.match(r"(else|elif|fi)\b", left[0]):
            statement = left.pop(0)
            if statement.startswith("if "):
                code = self._branch(statement[3:].strip(), left)
            elif statement == "exit" or statement.startswith("exit "):
                code = int(statement[4:].strip() or self._last)
            else:
                self._run(statement)
                code = None
            if code is not None:
                return code
        return None

    def _branch(self, condition: str, left: list[str]) -> int | None:
        """if CONDITION; then ... [else ...] fi"""
        holds = self._holds(condition)
        then = _until(left, ("else", "elif", "fi"))
        otherwise = _until(left, ("fi",)) if left and left[0].startswith("else") else []
        if not left or left[0] != "fi" or not then or not then[0].startswith("then"):
            raise _Unknown
        left.pop(0)
        chosen = then if holds else otherwise
        if not chosen:
            return None
        first = re.sub(r"^(then|else)\s*", "", chosen[0])
        return self._block([part for part in (first, *chosen[1:]) if part])

    def _holds(self, condition: str) -> bool:
        compared = _COMPARISON.fullmatch(condition)
        if compared is None:
            raise _Unknown
        ours, sign, theirs = (text.strip("\"'") for text in compared.groups())
        if sign in ("=", "==", "!="):
            return (ours == theirs) is (sign != "!=")
        one, other = int(ours), int(theirs)
        return {
            "-eq": one == other,
            "-ne": one != other,
            "-lt": one < other,
            "-le": one <= other,
            "-gt": one > other,
            "-ge": one >= other,
        }[sign]

    def _run(self, statement: str) -> None:
        name, _, rest = statement.partition(" ")
        match PurePosixPath(name).name:
            case "sleep":
                duration = _DURATION.fullmatch(rest.strip())
                if duration is None:
                    raise _Unknown
                self._slept += float(duration[1]) * _SECONDS[duration[2]]
                self._last = 0
            case "false":
                self._last = 1
            case quiet if quiet in _QUIET:
                self._last = 0
            case _:
                raise _Unknown

    def _filled(self, text: str) -> str:
        """With variables and remainders in their places."""

        def variable(match: re.Match[str]) -> str:
            name = match[1] or match[2] or match[3]
            if name not in self._variables:
                raise _Unknown
            return self._variables[name]

        def remainder(match: re.Match[str]) -> str:
            number, divisor = match[1] or match[3], match[2] or match[4]
            return str(int(number.lstrip("$")) % int(divisor))

        return _REMAINDER.sub(remainder, _VARIABLE.sub(variable, text))


def _until(left: list[str], ends: tuple[str, ...]) -> list[str]:
    """Take the statements of a branch, with those of whole branches inside it."""
    taken: list[str] = []
    depth = 0
    while left:
        word = left[0].split(" ", 1)[0]
        if depth == 0 and taken and word in ends:
            break
        depth += {"if": 1, "fi": -1}.get(word, 0)
        if depth < 0:
            break
        taken.append(left.pop(0))
    return taken
