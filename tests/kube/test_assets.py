"""What `make kube-assets` makes of the lists of apt, in both of their formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kube import assets


def test_lists_of_binary_packages_become_lists_of_sources() -> None:
    old = "# ours\ndeb [signed-by=/k.gpg] http://mirror.example/debian stable main\ndeb-src http://x y main\n"
    assert assets.source_entries(old, ".list") == old.replace("\ndeb [", "\ndeb-src [")
    new = "Types: deb deb-src\nURIs: http://mirror.example/debian\nSuites: stable\n"
    assert assets.source_entries(new, ".sources").startswith("Types: deb-src\nURIs: ")


def test_an_empty_folder_is_not_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBE_ASSETS", str(tmp_path))
    assert assets.assets_folder() == tmp_path
    assert not assets.is_complete(tmp_path)


def test_a_machine_without_apt_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBE_ASSETS", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert assets.main([]) == 1
    assert "apt-get" in capsys.readouterr().err
