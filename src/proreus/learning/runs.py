"""The folder of one training run: its settings, its journal, its checkpoints.

RUN/settings.json    what was asked for; a resumed run must ask for the same
RUN/journal.jsonl    one line per update, appended and synced: what a resumed run replays or continues
RUN/best/            the checkpoint with the best held-out score so far
RUN/last/            the latest checkpoint
RUN/tensorboard/     event files, where TensorBoard is installed
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proreus.model.errors import InputError, UsageError, WorkError
from proreus.model.files import make_folder, write_atomically
from proreus.policies.checkpoint import Checkpoint, save_checkpoint

SETTINGS, JOURNAL = "settings.json", "journal.jsonl"


def read_settings(path: Path) -> dict[str, Any]:
    """What a run was asked for: a resumed run asks for the same."""
    file = path / SETTINGS
    try:
        settings = json.loads(file.read_bytes())
    except OSError as error:
        raise InputError(f"cannot be resumed: {error.strerror}", file=file) from error
    except ValueError as error:
        raise InputError(f"cannot be resumed: not JSON: {error}", file=file) from error
    for name, kind in (("algorithm", str), ("scenarios", list), ("config", dict)):
        if not isinstance(settings, dict) or not isinstance(settings.get(name), kind):
            raise InputError("cannot be resumed: missing or of the wrong kind", file=file, field=name)
    return settings


class RunFolder:
    """Reads and writes the files of one run."""

    def __init__(self, path: Path, settings: Mapping[str, Any], *, resume: bool) -> None:
        self.path = path
        text = json.dumps(settings, indent=2, sort_keys=True) + "\n"
        if resume:
            self.past = self._resume(text)
        else:
            if (path / SETTINGS).exists():
                raise UsageError(
                    f"{path} holds a run already: resume it with --resume {path}, or choose another"
                )
            make_folder(path)
            write_atomically(path / SETTINGS, text.encode())
            self.past = []
        self._journal = (path / JOURNAL).open("a", encoding="utf-8")
        self._board = _tensorboard(path / "tensorboard")

    def _resume(self, text: str) -> list[dict[str, Any]]:
        """The journal so far; a last line that was cut off by a crash is dropped."""
        settings, journal = self.path / SETTINGS, self.path / JOURNAL
        try:
            before = settings.read_text(encoding="utf-8")
            lines = journal.read_text(encoding="utf-8").splitlines(keepends=True) if journal.exists() else []
        except OSError as error:
            raise InputError(f"cannot be resumed: {error.strerror}", file=error.filename) from error
        if json.loads(before) != json.loads(text):
            raise UsageError(f"{settings} asks for something else: a resumed run keeps its settings")
        whole = [line for line in lines if line.endswith("\n")]
        write_atomically(journal, "".join(whole).encode())
        return [json.loads(line) for line in whole]

    def record(self, entry: Mapping[str, Any], scalars: Mapping[str, float], step: int) -> None:
        """Append one line to the journal, durably, and its scalars to TensorBoard."""
        try:
            self._journal.write(json.dumps(entry) + "\n")
            self._journal.flush()
            os.fsync(self._journal.fileno())
        except OSError as error:
            raise WorkError(
                f"{self.path / JOURNAL}: cannot be written: {error.strerror}; the run can be resumed"
            ) from error
        if self._board is not None:
            for name, value in scalars.items():
                self._board.add_scalar(name, value, step)

    def save(self, name: str, checkpoint: Checkpoint) -> None:
        """Write a checkpoint under the run."""
        save_checkpoint(self.path / name, checkpoint)

    def close(self) -> None:
        """Flush what is open."""
        self._journal.close()
        if self._board is not None:
            self._board.close()


def _tensorboard(folder: Path) -> Any:
    """A TensorBoard writer, or None where it is not installed."""
    if importlib.util.find_spec("tensorboard") is None or importlib.util.find_spec("torch") is None:
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder))


def code_version() -> str:
    """The commit of the source tree, "" where it is not one."""
    here = Path(__file__).resolve().parent
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"], cwd=here, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout.strip()
