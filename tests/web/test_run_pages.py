"""Learning, comparisons and the playground, in a real browser over a real server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("prometheus_client", reason="a dashboard needs the extra `serve`")
pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra `dev`")

import httpx
from playwright.sync_api import expect

from proreus.serving.models.version_store import ModelStore
from proreus.web.dashboard import Dashboard, DashboardOptions
from proreus.worlds.pods.policies.vector.model import checkpoint_of, fresh_scorer
from tests.serving.door_cases import open_doors, serving_options
from tests.web.browser import Tab
from tests.web.run_cases import HOSTILE, TOKEN, run_folders, shown, write_journal

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders to look at."""
    return run_folders(tmp_path_factory.mktemp("looked-at"))


@pytest.fixture(scope="module")
def address(browser: Browser, runs: Path) -> Iterator[str]:
    """Of a dashboard that anybody on this machine may read."""
    with shown(runs) as made:
        yield made


@pytest.fixture
def tab(reader: Tab) -> Tab:
    """Whatever was read before, this is read in English."""
    reader.page.select_option("#tools select >> nth=0", "en")
    return reader


@pytest.fixture(scope="module")
def reader(browser: Browser, address: str) -> Iterator[Tab]:
    """Somebody without a token."""
    made = Tab.opened(browser, address)
    expect(made.page.locator("#tools select").first).to_be_visible()
    yield made
    assert made.dialogs == [] or HOSTILE not in "".join(made.dialogs)
    made.page.context.close()


def _items(address: str, kind: str) -> list[dict[str, str]]:
    items: list[dict[str, str]] = httpx.get(f"{address}dashboard/{kind}").json()["items"]
    return items


@pytest.mark.parametrize("language", ["en", "zh"])
def test_each_page_loads_and_has_no_serious_fault(tab: Tab, address: str, language: str) -> None:
    (comparison,), (run,) = _items(address, "comparisons"), _items(address, "runs")
    routes = {
        "learning": "/learning",
        "run": f"/learning/run/{run['id']}",
        "comparisons": "/comparisons",
        "comparison": f"/comparisons/{comparison['id']}",
        "playground": "/playground",
    }
    tab.page.select_option("#tools select >> nth=0", language)
    for name, route in routes.items():
        tab.go(route)
        expect(tab.page.locator("main table, main form, main .stage, main dl").first).to_be_visible()
        tab.page.wait_for_timeout(300)
        assert tab.faults() == [], name
        assert tab.sideways() <= 0, name
        assert tab.page.locator("main img, main script").count() == 0
        tab.shot(f"{name}-{language}")
    tab.quiet()


def test_a_run_goes_on_as_one_looks(tab: Tab, address: str, runs: Path) -> None:
    (run,) = _items(address, "runs")
    tab.go(f"/learning/run/{run['id']}")
    done = tab.page.locator("dd", has_text="generations")
    expect(done).to_have_text("3 generations")
    expect(tab.page.locator("main")).to_contain_text("goes on")
    expect(tab.page.locator("h2 .id")).to_contain_text(HOSTILE)
    folder = next(path for path in runs.iterdir() if path.name.startswith("trained"))
    write_journal(
        folder, [{"generation": at, "fitness": [1.0], "validation": {HOSTILE: 1.0}} for at in range(7)]
    )
    expect(done).to_have_text("7 generations")
    tab.quiet()


def test_a_comparison_is_looked_into_and_its_replay_moves(tab: Tab, address: str) -> None:
    (comparison,) = _items(address, "comparisons")
    tab.go(f"/comparisons/{comparison['id']}")
    expect(tab.page.locator(".intervals")).to_contain_text("best_fit")
    expect(tab.page.locator("table", has_text="jct_mean").first).to_contain_text("11 ± ")
    tab.page.select_option("select[aria-label='measure']", "jct_mean")
    expect(tab.page.locator(".verdict")).to_contain_text("best_fit is better than the next, kube: -1.333")
    moment = tab.page.locator(".replay .moment")
    last = moment.inner_text()
    tab.page.locator(".replay .back").click()
    expect(moment).not_to_have_text(last)
    tab.page.locator(".replay .play").click()
    expect(moment).to_have_text(last)
    tab.page.locator(".tab", has_text="<img").click()
    expect(tab.page.locator(".tab[aria-current]")).to_have_text(HOSTILE)
    assert tab.page.locator("main img, main script").count() == 0
    tab.quiet()


def test_a_wide_table_scrolls_beside_the_names_of_its_rows(browser: Browser, address: str) -> None:
    (comparison,) = _items(address, "comparisons")
    tab = Tab.opened(browser, f"{address}#/comparisons/{comparison['id']}")
    tab.page.set_viewport_size({"width": 390, "height": 800})
    region = tab.page.locator(".named-rows")
    expect(region).to_be_visible()
    name, value = region.locator("tbody td").nth(0), region.locator("tbody td").nth(1)
    edges = [cell.evaluate("cell => cell.getBoundingClientRect().left") for cell in (name, value)]
    assert region.evaluate("box => { box.scrollLeft = 60; return box.scrollLeft; }") == 60
    assert name.evaluate("cell => cell.getBoundingClientRect().left") == pytest.approx(edges[0], abs=1)
    assert value.evaluate("cell => cell.getBoundingClientRect().left") == pytest.approx(edges[1] - 60, abs=1)
    assert tab.sideways() <= 0
    tab.page.context.close()


def test_a_seed_is_played_again(tab: Tab, address: str) -> None:
    (comparison,) = _items(address, "comparisons")
    tab.go(f"/comparisons/{comparison['id']}")
    tab.page.locator(".again").nth(1).click()
    expect(tab.page.locator(".all-play")).to_be_visible(timeout=240_000)
    assert tab.page.locator(".side .replay figcaption span").first.inner_text() == "kube"
    tab.quiet()


def test_two_policies_meet_the_same_work_and_what_is_changed_changes_both(tab: Tab) -> None:
    tab.go("/playground")
    tab.wait("document.querySelectorAll('.pickers select')[3]?.options.length > 3")
    for place, value in enumerate(("pods", "small", "kube", "best_fit")):
        tab.page.select_option(f".pickers select >> nth={place}", value)
    tab.page.locator(".pickers button").click()
    expect(tab.page.locator(".all-play")).to_be_visible(timeout=240_000)
    tab.page.locator(".all-play").click()
    moments = tab.page.locator(".side .moment")
    before = moments.all_inner_texts()
    assert len(before) == 2
    tab.page.locator(".step-on").click()
    expect(moments.first).not_to_have_text(before[0])
    measures = tab.page.locator(".card", has_text="What came of it").locator("tbody tr").first
    usual = measures.inner_text()
    tab.shot("playground-ran")
    tab.page.locator(".load").click()
    expect(measures).not_to_have_text(usual, timeout=120_000)
    expect(tab.page.locator(".chips li").nth(1)).to_have_text("400 pods")
    tab.page.locator(".load").click()
    expect(tab.page.locator(".chips li").nth(1)).to_have_text("200 pods")
    box = tab.page.locator(".side .replay").first.locator("[data-box='3'] .box").bounding_box()
    zone = tab.page.locator(".drop-zone").bounding_box()
    assert box is not None and zone is not None
    tab.page.mouse.move(box["x"] + 9, box["y"] + 9)
    tab.page.mouse.down()
    tab.page.mouse.move(zone["x"] + 20, zone["y"] + 12, steps=4)
    tab.page.mouse.up()
    expect(tab.page.locator(".drop-zone .chips")).to_contain_text("node-0003", timeout=120_000)
    expect(tab.page.locator(".chips li").first).to_have_text("19 nodes")
    expect(tab.page.locator(".side .replay").first).not_to_contain_text("node-0003")
    assert tab.faults() == []
    tab.quiet()


def test_the_bars_of_two_runs_go_as_far_as_the_frames_above_them(tab: Tab) -> None:
    tab.go("/playground")
    tab.wait("document.querySelectorAll('.pickers select')[3]?.options.length > 3")
    for place, value in enumerate(("workflows", "calm", "heft", "fifo")):
        tab.page.select_option(f".pickers select >> nth={place}", value)
    tab.page.locator(".pickers button").click()
    expect(tab.page.locator(".gantt canvas").nth(1)).to_be_visible(timeout=240_000)
    tab.page.locator(".all-play").click()
    charts, moments = tab.page.locator(".gantt canvas"), tab.page.locator(".side .moment")
    assert charts.nth(0).get_attribute("data-axis") == charts.nth(1).get_attribute("data-axis")
    for share in ("300", "700"):
        tab.page.locator("input.whole").fill(share)
        for place in range(2):
            seconds = float(charts.nth(place).get_attribute("data-until") or "nan")
            expect(moments.nth(place)).to_contain_text(f"after {seconds / 60:.0f} min")
    apart = moments.nth(1).inner_text(), charts.nth(1).get_attribute("data-until")
    tab.page.locator(".replay .back").first.click()
    assert float(charts.nth(0).get_attribute("data-until") or "nan") < seconds
    assert apart == (moments.nth(1).inner_text(), charts.nth(1).get_attribute("data-until"))
    tab.page.locator("input.whole").fill("1000")
    expect(charts.nth(0)).not_to_have_attribute("data-until", re.compile("."))
    tab.quiet()


def test_a_version_is_promoted_with_a_token_and_not_without(browser: Browser, runs: Path) -> None:
    store = ModelStore(runs / "models")
    with shown(runs, TOKEN) as address:
        stranger = Tab.opened(browser, address)
        expect(stranger.page.locator("form.ask")).to_be_visible()
        assert httpx.get(f"{address}dashboard/models").status_code == 401
        expect(stranger.page.locator("form.ask")).not_to_contain_text("not accepted")
        stranger.page.fill("form.ask input", "a-token-of-another")
        stranger.page.click("form.ask button")
        expect(stranger.page.locator("form.ask")).to_contain_text("This token is not accepted.")
        stranger.page.context.close()
        owner = Tab.opened(browser, f"{address}#token={TOKEN}")
        owner.go("/learning")
        expect(owner.page.locator("main")).to_contain_text("version 1 is live")
        owner.page.locator(".promote").click()
        expect(owner.page.locator("main")).to_contain_text("version 2 is live")
        assert store.current("vector") == 2
        owner.page.locator(".rollback").click()
        expect(owner.page.locator("main")).to_contain_text("version 1 is live")
        assert store.current("vector") == 1 and len(owner.dialogs) == 2
        owner.quiet()
        owner.page.context.close()
    with shown(runs) as address:
        reader = Tab.opened(browser, address)
        reader.go("/learning")
        reader.page.locator(".promote").click()
        expect(reader.page.locator("form.ask")).to_contain_text("needs a token")
        reader.page.context.close()
    assert store.current("vector") == 1


def test_a_service_shows_its_versions_and_lets_a_token_change_them(browser: Browser, tmp_path: Path) -> None:
    dashboard = Dashboard(DashboardOptions("service"))
    doors = open_doors(serving_options(tmp_path, token=TOKEN.encode(), pages=dashboard))
    try:
        address = f"http://127.0.0.1:{doors.rest}/"
        name = doors.running.name
        ModelStore(tmp_path / "store").add(name, checkpoint_of(fresh_scorer(2), "none"), "second", parent=1)
        owner = Tab.opened(browser, f"{address}#token={TOKEN}")
        owner.go("/learning")
        expect(owner.page.locator("main")).to_contain_text("version 1 is live")
        expect(owner.page.locator("main")).to_contain_text("Online learning")
        owner.page.locator(".promote").click()
        expect(owner.page.locator("main")).to_contain_text("version 2 is live")
        assert doors.running.application.service.version == 2
        owner.shot("learning-service")
        owner.go("/decisions")
        expect(owner.page.locator("main")).to_contain_text("Requests a second")
        owner.quiet()
        owner.page.context.close()
        stranger = Tab.opened(browser, address)
        expect(stranger.page.locator("form.ask")).to_be_visible()
        stranger.page.context.close()
    finally:
        dashboard.close()
        doors.running.stop(2.0)
