"""Cgroups of version 2 as files (this machine's kernel may have either), and machines that have none."""

from __future__ import annotations

from pathlib import Path

import pytest

from proreus.engine.runtimes.cgroups import CgroupLimits, Cgroups, CgroupUsage, Unwritable
from proreus.engine.runtimes.shim.shim import oom_kills


@pytest.fixture
def unified(tmp_path: Path) -> Path:
    """What a mount of version 2 looks like, where making a folder makes no files."""
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (tmp_path / "cgroup.subtree_control").write_text("cpu\n")
    (tmp_path / "parent").mkdir()
    (tmp_path / "parent" / "cgroup.subtree_control").write_text("cpu memory pids\n")
    return tmp_path


def test_limits_are_written_in_the_words_of_version_2(unified: Path) -> None:
    cgroups = Cgroups("parent", unified)
    assert cgroups.version == 2
    assert cgroups.make("one", CgroupLimits(250, 64 << 20, 500, 100)) == [str(unified / "parent" / "one")]
    written = {file.name: file.read_text() for file in (unified / "parent" / "one").iterdir()}
    assert written == {
        "cpu.max": "25000 100000",
        "cpu.weight": "20",
        "memory.max": str(64 << 20),
        "memory.oom.group": "1",
        "pids.max": "100",
    }
    assert (unified / "cgroup.subtree_control").read_text() == "+pids"  # each is written for itself
    cgroups.make("two", CgroupLimits(None, None, 0, 100))
    assert {file.name for file in (unified / "parent" / "two").iterdir()} == {"cpu.weight", "pids.max"}
    assert cgroups.names() == {"one", "two"}


def test_use_and_lack_of_memory_are_read_in_the_words_of_version_2(unified: Path) -> None:
    cgroups = Cgroups("parent", unified)
    assert cgroups.spent("one") is None
    folder = unified / "parent" / "one"
    folder.mkdir()
    (folder / "cpu.stat").write_text("usage_usec 1500\nuser_usec 1000\n")
    (folder / "memory.current").write_text("9000\n")
    (folder / "memory.stat").write_text("anon 1\ninactive_file 4000\n")
    (folder / "memory.events").write_text("low 0\noom 1\noom_kill 2\n")
    assert cgroups.spent("one") == CgroupUsage(1_500_000, 5000)
    assert oom_kills(cgroups.memory_folder("one")) == 2


def test_a_machine_without_cgroups_is_told(tmp_path: Path) -> None:
    with pytest.raises(Unwritable, match="no cgroup controller memory"):
        Cgroups("parent", tmp_path)
    (tmp_path / "cgroup.controllers").write_text("")
    with pytest.raises(Unwritable, match="No such file"):
        Cgroups("parent", tmp_path)
