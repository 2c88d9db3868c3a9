"""`proreus --completion bash|zsh`: a script that completes verbs, what they are about, and their flags."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterable, Sequence

from proreus.cli import bench, data, models, serve
from proreus.cli.arguments import flags_in
from proreus.model.errors import unknown_name
from proreus.worlds import registered

SHELLS = ("bash", "zsh")
_SCRIPT = """\
{first}# Completion: put `source <(proreus --completion {shell})` into the start file of your shell.
_proreus() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="{verbs}"
  elif [ "$COMP_CWORD" -eq 2 ] && [ "${{word#-}}" = "$word" ]; then
    case "${{COMP_WORDS[1]}}" in
{subjects}
    esac
  elif [ "${{word#-}}" != "$word" ]; then
    case "${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}" in
{flags}
    esac
  fi
  COMPREPLY=( $(compgen -W "$words" -- "$word") )
}}
complete -o default -F _proreus proreus
"""


def completion(shell: str, verbs: Iterable[str], run: Callable[[Sequence[str]], int]) -> str:
    """The script; `run` runs a command line, whose --help says which flags there are."""
    if shell not in SHELLS:
        raise unknown_name("shell", shell, SHELLS)
    names = list(verbs)
    subjects = {verb: _subjects(verb) for verb in names}
    entries = [(verb, subject) for verb in names for subject in subjects[verb] or ("",)]
    flags = {
        (verb, subject): _flags((verb, subject) if subject else (verb,), run) for verb, subject in entries
    }
    return _SCRIPT.format(
        first="autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else "",
        shell=shell,
        verbs=" ".join(names),
        subjects="\n".join(f'      {verb}) words="{" ".join(of)}" ;;' for verb, of in subjects.items() if of),
        flags="\n".join(
            f'      "{verb} {subject}"{"*" if not subject else ""}) words="{" ".join(words)}" ;;'
            for (verb, subject), words in flags.items()
        ),
    )


def _subjects(verb: str) -> tuple[str, ...]:
    """What a verb wants to be told first."""
    match verb:
        case "simulate" | "compare" | "train":
            return tuple(registered())
        case "bench":
            return tuple(bench.benches())
        case "serve":
            return (*serve.DOORS, serve.SCALER, serve.SHADOW_REPORT)
        case "models":
            return models.NAMES
        case "data":
            return data.ACTIONS
        case _:
            return ()


def _flags(words: Sequence[str], run: Callable[[Sequence[str]], int]) -> list[str]:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        run((*words, "--help"))
    return flags_in(text.getvalue())
