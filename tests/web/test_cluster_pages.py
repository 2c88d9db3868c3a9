"""The pages of a cluster that runs, in a real browser over a real `proreus up`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("httpx", reason="asking a cluster needs the extra `engine`")
pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra `dev`")

import httpx
from playwright.sync_api import expect

from tests.web.browser import Tab

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.cli.cluster.clusters import Cluster

PODS = "/api/v1/namespaces/default/pods"
HOSTILE = "<img src=x onerror=\"alert('it ran')\"><script>alert('it ran')</script>"


def _pod(name: str, cpu: str = "1", **metadata: Any) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": "1Gi"}
    container = {"name": "c", "image": "nginx", "resources": {"requests": requests}}
    return {"metadata": {"name": name, **metadata}, "spec": {"containers": [container]}}


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Iterator[Any]:
    """An admin."""
    with httpx.Client(base_url=cluster.ready["api"], headers=cluster.headers, timeout=60.0) as made:
        template = {
            "metadata": {"labels": {"app": "web"}},
            "spec": _pod("x", "500m")["spec"],
        }
        spec = {"replicas": 8, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        web = {"metadata": {"name": "web"}, "spec": spec}
        assert made.post("/apis/apps/v1/namespaces/default/deployments", json=web).status_code == 201
        assert made.post(PODS, json=_pod("too-big", "900")).status_code == 201
        yield made


@pytest.fixture(scope="module")
def tab(browser: Browser, viewer: str, client: Any) -> Iterator[Tab]:
    """A viewer's."""
    made = Tab.opened(browser, viewer)
    expect(made.page.locator("#link")).to_have_text("live")
    made.wait("document.querySelectorAll('.pods tbody tr a').length >= 9")
    yield made
    made.page.context.close()


ROUTES = {
    "cluster": "/cluster",
    "decisions": "/decisions",
    "pod": "/pod/default/too-big",
    "node": "/node/node-1",
    "workload": "/workload/Deployment/default/web",
    "learning-cluster": "/learning",
}


@pytest.mark.parametrize("name", ROUTES)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_each_page_loads_and_has_no_serious_fault(tab: Tab, name: str, language: str) -> None:
    tab.page.select_option("#tools select >> nth=0", language)
    tab.go(ROUTES[name])
    expect(tab.page.locator(f".page.{name.partition('-')[0]} .card").first).to_be_visible()
    tab.page.wait_for_timeout(400)
    assert tab.page.evaluate("document.documentElement.lang") == {"en": "en", "zh": "zh-CN"}[language]
    assert tab.faults() == []
    assert tab.sideways() <= 0
    tab.shot(f"{name}-{language}")
    tab.quiet()


def test_pods_come_and_go_as_one_looks(tab: Tab, client: Any) -> None:
    tab.page.select_option("#tools select >> nth=0", "en")
    tab.go("/cluster")
    row = tab.page.locator(".pods tbody a", has_text="newcomer")
    expect(row).to_have_count(0)
    assert client.post(PODS, json=_pod("newcomer")).status_code == 201
    expect(row).to_be_visible()
    expect(tab.page.locator(".pods tbody tr", has_text="newcomer").locator(".tag")).to_have_text("Running")
    assert client.delete(f"{PODS}/newcomer?gracePeriodSeconds=0").status_code == 200
    expect(row).to_have_count(0)
    tab.quiet()


def test_pods_are_found_and_put_in_order(tab: Tab, client: Any) -> None:
    tab.go("/cluster")
    search = tab.page.locator(".pods input[type=search]")
    search.fill("state:pending")
    expect(tab.page.locator(".pods tbody a").first).to_have_text("too-big")
    expect(tab.page.locator(".pods h2 small")).to_contain_text("1 of ")
    search.fill("owner:replicaset")
    tab.wait("document.querySelectorAll('.pods tbody:not(.spacer) tr').length === 8")
    tab.page.locator(".pods .sort[data-sort=name]").click()
    names = tab.page.locator(".pods tbody:not(.spacer) tr td:first-child").all_inner_texts()
    assert names == sorted(names)
    search.fill("")
    tab.quiet()


def test_a_decision_says_why_and_leads_to_its_pod(tab: Tab) -> None:
    tab.go("/decisions")
    row = tab.page.locator("table.decision-table tbody tr", has_text="web-").first
    expect(row).to_contain_text("kube")
    expect(row).to_contain_text("scored")
    expect(row.locator("td").nth(5)).to_contain_text("ms")
    row.locator("a").first.click()
    why = tab.page.locator(".why")
    expect(why).to_contain_text("Scores of the chosen node")
    expect(why).to_contain_text("of 12 nodes")
    expect(why).to_contain_text("best_fit would have chosen")
    expect(tab.page.locator(".log")).to_contain_text("simulated container")
    expect(tab.page.locator(".timeline")).to_contain_text("given a node")
    tab.quiet()


def test_a_pod_that_waits_says_why(tab: Tab) -> None:
    tab.go("/pod/default/too-big")
    expect(tab.page.locator(".why")).to_contain_text("Insufficient cpu")
    tab.go("/cluster")
    expect(tab.page.locator(".card", has_text="Queue")).to_contain_text("too-big")


def test_the_keyboard_goes_everywhere(tab: Tab) -> None:
    tab.go("/cluster")
    tab.page.locator("canvas.heat").focus()
    tab.page.keyboard.press("ArrowRight")
    expect(tab.page.locator("#heat-told")).to_contain_text("node-1 · ready")
    tab.page.keyboard.press("ArrowRight")
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("h2 .id")).to_have_text("node-2")
    tab.page.keyboard.press("2")
    expect(tab.page.locator("table.decision-table")).to_be_visible()
    tab.page.keyboard.press("1")
    tab.page.keyboard.press("/")
    assert tab.page.evaluate("document.activeElement.type") == "search"


def test_a_chart_is_saved_as_a_picture_and_as_a_table(tab: Tab) -> None:
    tab.go("/cluster")
    nodes = tab.page.locator(".card", has=tab.page.locator("canvas.heat"))
    with tab.page.expect_download() as picture:
        nodes.get_by_role("button", name="picture").click()
    assert picture.value.path().read_bytes().startswith(b"\x89PNG")
    with tab.page.expect_download() as rows:
        nodes.get_by_role("button", name="table").click()
    lines = rows.value.path().read_text().splitlines()
    assert lines[0].startswith("node,ready") and len(lines) == 13
    tab.quiet()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_in_light_and_dark(browser: Browser, viewer: str, client: Any, scheme: str) -> None:
    phone = Tab.opened(browser, viewer, viewport={"width": 390, "height": 840}, color_scheme=scheme)
    expect(phone.page.locator("#link")).to_have_text("live")
    for name, route in ROUTES.items():
        phone.go(route)
        expect(phone.page.locator(".card").first).to_be_visible()
        phone.page.wait_for_timeout(300)
        assert phone.sideways() <= 0, name
        if name in ("cluster", "decisions"):
            assert phone.faults() == []
            phone.shot(f"{name}-phone-{scheme}")
    phone.quiet()
    phone.page.context.close()


def test_what_anybody_says_stays_text(tab: Tab, client: Any) -> None:
    decision = {"policy": HOSTILE, "node": HOSTILE, "version": HOSTILE, "feasible": HOSTILE, "of": 1}
    decision |= {"score": 3, "next": {"node": HOSTILE, "score": 2}, "factors": {HOSTILE: [3, 2]}}
    decision |= {"refused": {HOSTILE: 3}, "shadow": {"policy": HOSTILE, "node": "n", "would": HOSTILE}}
    annotations = {"proreus.io/decision": json.dumps(decision), "note": HOSTILE}
    hostile = _pod("hostile", annotations=annotations)
    hostile["spec"]["schedulerName"] = "nobody-at-all"
    hostile["spec"]["containers"][0]["image"] = "x" + HOSTILE.replace(" ", "")
    assert client.post(PODS, json=hostile).status_code == 201
    about = {"kind": "Pod", "name": "hostile", "namespace": "default"}
    event = {"metadata": {"name": "hostile.1"}, "involvedObject": about, "type": "Warning"}
    event |= {"reason": HOSTILE, "message": HOSTILE}
    assert client.post("/api/v1/namespaces/default/events", json=event).status_code in (201, 422)
    event["reason"] = "Hostile"
    assert (
        client.post(
            "/api/v1/namespaces/default/events", json={**event, "metadata": {"name": "hostile.2"}}
        ).status_code
        == 201
    )
    for route in ("/pod/default/hostile", "/decisions", "/cluster"):
        tab.go(route)
        expect(tab.page.locator("main")).to_contain_text("<img src=x")
        assert tab.page.locator("main img, main script").count() == 0
    tab.go("/pod/default/" + HOSTILE.replace("/", "%2F").replace(" ", "%20"))
    expect(tab.page.locator("main")).to_contain_text("It cannot be read")
    assert tab.dialogs == []
    tab.complaints[:] = [line for line in tab.complaints if "Failed to load resource" not in line]
    tab.quiet()
    client.delete(f"{PODS}/hostile?gracePeriodSeconds=0")


def test_without_a_token_nothing_is_shown_and_with_a_viewer_s_nothing_changed(
    browser: Browser, cluster: Cluster, viewer: str
) -> None:
    stranger = Tab.opened(browser, cluster.ready["page"])
    expect(stranger.page.locator("form.ask")).to_be_visible()
    assert stranger.page.locator(".pods").count() == 0
    stranger.page.fill("form.ask input", viewer.partition("token=")[2])
    stranger.page.click("form.ask button")
    expect(stranger.page.locator("#link")).to_have_text("live")
    stranger.go("/learning")
    stranger.page.select_option(".scheduler select >> nth=1", "candidate")
    stranger.page.locator(".scheduler button", has_text="set").click()
    expect(stranger.page.locator("form.ask")).to_contain_text("forbidden")
    stranger.page.context.close()


def test_a_candidate_is_put_up_and_withdrawn_by_an_admin(browser: Browser, cluster: Cluster) -> None:
    admin = Tab.opened(browser, f"{cluster.ready['page']}#token={cluster.token}")
    admin.go("/learning")
    admin.wait("document.querySelectorAll('.scheduler select')[0]?.options.length > 3")
    admin.page.select_option(".scheduler select >> nth=0", "worst_fit")
    admin.page.select_option(".scheduler select >> nth=1", "candidate")
    admin.page.locator(".scheduler button", has_text="set").click()
    expect(admin.page.locator(".stages .now")).to_contain_text("in the shadow")
    admin.shot("learning-candidate")
    admin.page.locator(".scheduler .rollback").click()
    expect(admin.page.locator(".stages")).to_have_count(0)
    assert len(admin.dialogs) == 2
    admin.quiet()
    admin.page.context.close()
