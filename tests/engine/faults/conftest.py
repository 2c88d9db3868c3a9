"""What these tests need, and where it is not there."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette", reason="a cluster needs the extra `engine`")
pytest.importorskip("httpx", reason="asking a cluster needs the extra `engine`")
