"""Who holds a folder: one at a time, under a name that stays the same and is nobody else's."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from proreus.cli.cluster import lock
from proreus.cli.cluster.lock import FolderLock, Holder, LockPurpose, held_by, only_one
from proreus.cli.cluster.options import identity_of
from proreus.model.errors import WorkError
from tests.cli.runner import Proreus, environment


def test_the_next_holder_has_the_name_of_the_last(tmp_path: Path) -> None:
    with (
        only_one(tmp_path) as first,
        pytest.raises(WorkError, match="a cluster runs here already"),
        only_one(tmp_path),
    ):
        pass
    with only_one(tmp_path) as second:
        for store in ("etcd://127.0.0.1:2379", "sqlite:x.db"):
            assert identity_of(store, first) == identity_of(store, second) != ""


_AN_AGENT = """
import sys, time
from pathlib import Path
from proreus.cli.cluster.lock import LockPurpose, only_one
with only_one(Path(sys.argv[1]), LockPurpose.AGENT):
    print("here", flush=True)
    time.sleep(300)
"""


def test_who_holds_a_folder_is_told_for_what_it_is(tmp_path: Path, proreus: Proreus) -> None:
    agent = subprocess.Popen(
        [sys.executable, "-c", _AN_AGENT, str(tmp_path)], env=environment(), stdout=subprocess.PIPE
    )
    try:
        assert agent.stdout is not None and agent.stdout.readline() == b"here\n"
        assert held_by(tmp_path) == FolderLock(agent.pid, LockPurpose.AGENT)
        with pytest.raises(WorkError, match=f"an agent runs here already .process {agent.pid}"):
            only_one(tmp_path).__enter__()
        said = proreus("down", "--dir", str(tmp_path)).out
        assert said == "the agent was ended; 0 containers were stopped\n"
    finally:
        agent.kill()
        agent.communicate()
    assert held_by(tmp_path) is None
    assert proreus("down", "--dir", str(tmp_path)).out == "nothing ran; 0 containers were stopped\n"


def test_folders_and_their_copies_have_names_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    with only_one(tmp_path / "one") as holder:
        shutil.copytree(tmp_path / "one", tmp_path / "two")
        with only_one(tmp_path / "two") as two:
            assert holder.on_this_machine() != two.on_this_machine()
            assert holder.anywhere() != two.anywhere()


def test_a_copy_of_the_machine_has_another_name_on_etcd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = Holder("802-1f")
    names = set()
    for started in ("first\n", "second\n"):
        (tmp_path / "boot").write_text(started)
        monkeypatch.setattr(lock, "_BOOT", tmp_path / "boot")
        names.add(identity_of("etcd://127.0.0.1:2379", holder))
    assert len(names) == 2
    monkeypatch.setattr(lock, "_BOOT", tmp_path / "none")
    assert identity_of("etcd://127.0.0.1:2379", holder) == "", "made anew at each start"
