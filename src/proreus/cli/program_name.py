"""How a person calls this program in another terminal; hints that are to be typed begin with it."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

_NAME = "proreus"


def program_name() -> str:
    """`proreus` where a shell finds it, else the path that was typed, as `.venv/bin/proreus`."""
    if shutil.which(_NAME) is not None:
        return _NAME
    if Path(sys.argv[0]).stem == _NAME:
        return shlex.quote(sys.argv[0])
    return f"{shlex.quote(sys.executable)} -m {_NAME}"
