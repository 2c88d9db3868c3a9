"""Images made of this machine's own programs: they run where nothing else is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from proreus.cli.images import _action_of
from proreus.engine.runtimes.images.builder import MACHINE_PYTHON, pack_programs
from proreus.model.errors import InputError
from tests.engine.runtimes.benches import Place, pod_of
from tests.engine.runtimes.conftest import found_busybox


def test_the_machines_python_is_made_when_it_is_wanted(contained_place: Place) -> None:
    async def scene() -> None:
        async with contained_place.bench() as bench:
            script = "import http.server, json, ssl, sys; print(json.dumps(sys.version_info[:2]))"
            main = {"name": "main", "image": MACHINE_PYTHON, "command": ["python3", "-c", script]}
            other = {**main, "name": "other"}
            pod = pod_of(main, other)
            bench.runtime.start(pod, ["main", "other"])
            for name in ("main", "other"):
                end = await bench.ended(pod["metadata"]["uid"], name)
                assert end.exit_code == 0, await bench.text(pod["metadata"]["uid"], name)

    asyncio.run(scene())


def test_a_packed_program_brings_its_libraries(contained_place: Place, tmp_path: Path) -> None:
    archive = tmp_path / "packed.tar"
    pack_programs(archive, "localhost/packed:1", [found_busybox(), Path("/usr/bin/env")])

    async def scene() -> None:
        async with contained_place.bench() as bench:
            await bench.runtime.import_image(archive)  # type: ignore[attr-defined]
            command = ["/bin/sh", "-c", "/usr/bin/env A=1 sh -c 'echo $A'; ls /home"]
            main = {"name": "main", "image": "localhost/packed:1", "command": command}
            _, text = await bench.run(pod_of(main))
            assert text.splitlines()[0] == "1" and "No such file" in text

    asyncio.run(scene())
    with pytest.raises(InputError):
        pack_programs(archive, "localhost/packed:1", [tmp_path / "none"])


@pytest.mark.parametrize(
    ("words", "action", "rest"),
    [
        ("--dir X list", "list", "--dir X"),
        ("list --dir X", "list", "--dir X"),
        ("--dir list import a.tar", "import", "--dir list a.tar"),
        ("--quiet --dir=X remove name", "remove", "--quiet --dir=X name"),
        ("--help", "", "--help"),
    ],
)
def test_flags_may_stand_before_what_is_to_be_done(words: str, action: str, rest: str) -> None:
    assert _action_of(words.split()) == (action, rest.split())
