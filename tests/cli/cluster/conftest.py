"""One cluster for all tests of the verbs; each works in a namespace of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="a cluster needs the extra `engine`")
pytest.importorskip("httpx", reason="asking a cluster needs the extra `engine`")

from tests.cli.cluster.clusters import Cluster, started
from tests.cli.runner import Ended, Proreus

_numbers = itertools.count(1)
WEB = Path(__file__).parents[3] / "examples" / "engine" / "web.yaml"


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with started(
        tmp_path_factory.mktemp("cluster") / "state", "--nodes", "3", "--shadow", "best_fit"
    ) as made:
        yield made
        code, said = made.end()
        assert code == 0 and said.endswith("ended; the same command goes on where it was\n"), said
        assert "Traceback" not in said


@pytest.fixture
def namespace(cluster: Cluster, proreus: Proreus, tmp_path: Path) -> Iterator[str]:
    """Gone after the test with all that is in it, so that no budget of it holds up another's drain."""
    name = f"test-{next(_numbers)}"
    (tmp_path / "namespace.yaml").write_text(f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")
    assert proreus("apply", "-f", "namespace.yaml", *cluster.where).code == 0
    yield name
    ended = proreus("delete", "namespace", name, *cluster.where)
    assert ended.code == 0, ended.err


@pytest.fixture
def ask(cluster: Cluster, namespace: str, proreus: Proreus) -> Callable[..., Ended]:
    """A verb in the test's namespace."""

    def run(verb: str, *words: str) -> Ended:
        place = () if verb in ("drain", "cordon", "uncordon") else ("-n", namespace)
        return proreus(verb, *cluster.where, *place, *words)

    return run
