"""The committed message types are those of the .proto files."""

from __future__ import annotations

from pathlib import Path

import pytest

import proreus.serving.protos as protos

FOLDER = Path(protos.__file__).parent
SOURCE = FOLDER.parents[2]


@pytest.mark.parametrize("name", ["scheduler", "decision", "externalscaler"])
def test_make_protos_would_change_nothing(name: str, tmp_path: Path) -> None:
    protoc = pytest.importorskip("grpc_tools.protoc")
    path = f"proreus/serving/protos/{name}.proto"
    words = ["protoc", f"-I{SOURCE}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", path]
    assert protoc.main(words) == 0
    for made in (f"{name}_pb2.py", f"{name}_pb2.pyi"):
        assert (tmp_path / "proreus/serving/protos" / made).read_bytes() == (FOLDER / made).read_bytes()
