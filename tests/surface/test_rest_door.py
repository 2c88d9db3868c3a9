"""What the REST door says of itself: every path, method, answer and schema of /openapi.json."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the service needs the extra `serve`")

from tests.serving.service_process import ServiceProcess
from tests.surface.pinning import assert_pinned


def test_the_door_offers_what_it_offered(tmp_path: Path) -> None:
    service = ServiceProcess(tmp_path, "rest", "--state_dim", "6", "--action_dim", "8", "--no-learn")
    try:
        address = f"http://127.0.0.1:{service.rest}/openapi.json"
        with urllib.request.urlopen(address, timeout=30) as answer:
            document: dict[str, Any] = json.loads(answer.read())
        ready = {name: value for name, value in service.about.items() if name != "pid"}
    finally:
        code = service.end()
    assert code == 0
    assert_pinned("rest/openapi", _unordered(document))
    del ready["rest"]["port"]
    assert_pinned("rest/ready", ready)


def _unordered(content: Any) -> Any:
    """Lists of words as mappings: their order means nothing, and a further word is no loss."""
    if isinstance(content, dict):
        return {key: _unordered(value) for key, value in content.items()}
    if isinstance(content, list) and all(isinstance(word, str) for word in content):
        return dict.fromkeys(sorted(content), "listed")
    if isinstance(content, list):
        return [_unordered(value) for value in content]
    return content
