"""The files of the dashboard: whole in themselves, allowed nothing else, complete in both languages."""

from __future__ import annotations

import re

import pytest

from proreus.web.static_files import POLICY, static_files

SCRIPTS = {path: reply.body.decode() for path, reply in static_files().items() if path.endswith(".js")}
INDEX = static_files()["/"].body.decode()


def test_nothing_is_loaded_from_elsewhere() -> None:
    for path, reply in static_files().items():
        text = reply.body.decode()
        own = text.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//[a-z0-9-]+\.[a-z]{2,}/|@import", own), path
    for path, text in SCRIPTS.items():
        for wanted in re.findall(r'^import .* from "(.*)";$', text, re.MULTILINE):
            folder = path.rpartition("/")[0]
            while wanted.startswith("../"):
                wanted, folder = wanted.removeprefix("../"), folder.rpartition("/")[0]
            assert f"{folder}/{wanted.removeprefix('./')}" in SCRIPTS, (path, wanted)


def test_what_anybody_says_is_never_read_as_markup() -> None:
    words = (
        *("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"),
        *("DOMParser", "srcdoc", "setHTML", "javascript:", "createContextualFragment"),
    )
    for path, text in SCRIPTS.items():
        for word in words:
            assert word not in text, (path, word)
        assert not re.search(r"setTimeout\(\s*[\"'`]|setInterval\(\s*[\"'`]", text), path


def test_the_policy_runs_nothing_but_these_files() -> None:
    assert "unsafe" not in POLICY and "default-src 'none'" in POLICY
    assert (
        "script-src 'self';" in POLICY and "style-src 'self';" in POLICY and "connect-src 'self';" in POLICY
    )
    assert "require-trusted-types-for 'script'" in POLICY and "frame-ancestors 'none'" in POLICY
    assert all(reply.headers["content-security-policy"] == POLICY for reply in static_files().values())
    assert "style=" not in INDEX and " on" not in re.sub(r"<noscript>.*</noscript>", "", INDEX)
    assert re.findall(r"<script[^>]*>([^<]*)</script>", INDEX) == [""]
    assert not any('"style"' in text and "setAttribute" in text for text in SCRIPTS.values())


def test_no_cookies() -> None:
    assert not any("document.cookie" in text for text in SCRIPTS.values())
    assert 'credentials: "omit"' in SCRIPTS["/static/server.js"]


def _words(language: str) -> dict[str, str]:
    return dict(re.findall(r'^  "([\w.]+)": "(.*)",$', SCRIPTS[f"/static/words/{language}.js"], re.MULTILINE))


def test_both_languages_say_the_same_things() -> None:
    english, chinese = _words("en"), _words("zh")
    assert list(english) == list(chinese) and len(english) > 200
    for key, text in english.items():
        assert set(re.findall(r"{\w+}", text)) == set(re.findall(r"{\w+}", chinese[key])), key
        assert text.strip() and chinese[key].strip()
    # Names of things stay as they are; all else is Chinese.
    same = {key for key in english if english[key] == chinese[key]}
    assert same == {"resource.cpu", "resource.gpu", "pod.title"}, same
    plain = [
        key for key, text in chinese.items() if key not in same and not re.search(r"[\u4e00-\u9fff]", text)
    ]
    names = {
        "pods.title",
        "pods.some",
        "queue.pod",
        "decisions.head.pod",
        "shadow.head.pod",
        "about.scheduler",
    }
    assert set(plain) <= names, plain


@pytest.mark.parametrize("path", sorted(SCRIPTS))
def test_whatever_a_page_says_stands_in_both(path: str) -> None:
    english = _words("en")
    text = SCRIPTS[path]
    for key in re.findall(r'\bt\("([^"]+)"', text):
        assert key in english, key
    for beginning in re.findall(r"\bt\(`([\w.]+)\.\$", text):
        assert any(key.startswith(f"{beginning}.") for key in english), beginning


def test_no_word_is_left_over() -> None:
    code = "\n".join(text for path, text in SCRIPTS.items() if "/words/" not in path)
    used = set(re.findall(r'\bt\("([^"]+)"', code))
    beginnings = tuple(f"{beginning}." for beginning in re.findall(r"\bt\(`([\w.]+)\.\$", code))
    assert [key for key in _words("en") if key not in used and not key.startswith(beginnings)] == []


def test_both_colour_schemes() -> None:
    style = static_files()["/static/dashboard.css"].body.decode()
    names = r"(--[a-z0-9-]+):"
    light, _, rest = style.partition("@media (prefers-color-scheme: dark)")
    by_system, _, chosen = rest.partition(':root[data-theme="dark"] {')
    dark = set(re.findall(names, by_system))
    assert dark == set(re.findall(names, light)) == set(re.findall(names, chosen.partition("}")[0]))
