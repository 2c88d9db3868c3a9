"""The status page: whole in itself, and allowed to do nothing but show this cluster."""

from __future__ import annotations

import re

from proreus.web import page_headers, status_page


def test_the_page_loads_nothing() -> None:
    page = status_page().decode()
    assert not re.search(r"""(src|href)\s*=\s*["'](?!data:)""", page)
    assert not re.search(r"@import|url\(|https?:|\bimport\b|XMLHttpRequest|WebSocket", page)
    assert re.findall(r"fetch\(([^,]*),", page) == ['"v1/events"']


def test_what_the_cluster_says_is_never_read_as_markup() -> None:
    page = status_page().decode()
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in page


def test_the_policy_allows_only_the_page_s_own_script() -> None:
    policy = page_headers()["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "connect-src 'self'" in policy
    assert len(re.findall(r"'sha256-[A-Za-z0-9+/]{43}='", policy)) == 2
    assert 'style="' not in status_page().decode()  # the policy would refuse it


def test_both_colour_schemes() -> None:
    page = status_page().decode()
    light, _, dark = page.partition("@media (prefers-color-scheme: dark)")
    names = set(re.findall(r"(--[a-z0-9-]+):", light.partition("</style>")[0]))
    assert names and names <= set(re.findall(r"(--[a-z0-9-]+):", dark.partition("</style>")[0]))
