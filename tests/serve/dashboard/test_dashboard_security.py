"""The dashboard against hostile data, without a token, and what its answers allow a browser to do."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Page, expect
from site_of_orders import READ, Site, Watched

from tidemill.serve.dashboard.pages import assets


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


HOSTILE_NAME = "<img src=x onerror=\"window.hurt='name'\"> ?#%41&"


@pytest.fixture(scope="module")
def hostile(site: Site, hostile_text: str) -> str:
    """A view with a hostile name, hostile columns and hostile rows, and a table with a hostile name."""
    path = f"{site.data}/none*.csv"
    site.mill.sql(f"CREATE TABLE {quoted('t' + HOSTILE_NAME)} (v STRING) USING csv OPTIONS (path '{path}')")
    columns = f"customer AS {quoted('c' + HOSTILE_NAME)}, amount AS {quoted('n' + HOSTILE_NAME)}"
    site.mill.sql(f"CREATE MATERIALIZED VIEW {quoted('v' + HOSTILE_NAME)} AS SELECT {columns} FROM orders")
    site.add((hostile_text, 3), ("ann", 4))
    return "v" + HOSTILE_NAME


def test_names_and_rows_are_texts(site: Site, watched: Watched, hostile: str, hostile_text: str) -> None:
    page = watched.open()
    for panel in ("", "views", "sources", "state", "epochs", "sql"):
        page.goto(f"{site.url}#/{panel}")
        expect(page.locator("main .box").first).to_be_visible()
        if panel in ("", "views", "sources", "state"):
            expect(page.locator("main")).to_contain_text(HOSTILE_NAME)
    page.goto(f"{site.url}#/views")
    page.get_by_role("link", name=hostile).click()
    expect(page.locator("h1")).to_have_text(hostile)
    expect(page.locator("table.rows tbody")).to_contain_text(hostile_text)
    expect(page.locator("table.rows thead")).to_contain_text("c" + HOSTILE_NAME)
    expect(page.locator(".bars")).to_contain_text(hostile_text)
    site.add((hostile_text, 8))
    expect(page.locator("table.rows tbody tr", has_text=hostile_text)).to_have_count(2)
    for tab, text in (("Plan", f"view:{hostile}"), ("Definition", f"c{HOSTILE_NAME}")):
        page.get_by_role("link", name=tab, exact=True).click()
        expect(page.locator("main")).to_contain_text(text)
    watched.refusals = True
    page.goto(f"{site.url}#/sql")
    area = page.get_by_label("SQL statement")
    area.fill(f"SELECT {quoted(hostile_text)} FROM spending")
    area.press("Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text(hostile_text[:20])
    area.fill(f"SELECT '{hostile_text.replace(chr(39), chr(34))}' AS {quoted(hostile_text)}")
    area.press("Control+Enter")
    expect(page.get_by_role("region", name="Result")).to_contain_text("onerror")
    assert page.evaluate("window.hurt") is None
    assert page.locator("main img, main svg[onload], main script").count() == 0


def test_the_policy_would_stop_markup_that_came_through(site: Site, watched: Watched) -> None:
    page = watched.open()
    page.goto(site.url)
    outcome = page.evaluate(
        """() => { try { document.body.innerHTML = "<img src=x onerror=alert(1)>"; return "set"; }
                   catch (error) { return error.name; } }"""
    )
    assert outcome == "TypeError"
    attempt = """() => { const e = document.createElement("p");
                         try { e.setAttribute("onclick", "window.hurt = 1"); } catch { return; }
                         document.body.append(e); e.click(); }"""
    page.evaluate(attempt)
    assert page.evaluate("window.hurt") is None
    page.wait_for_function("window.violations.length > 0")
    watched.errors.clear()
    page.evaluate("window.violations.length = 0")


def test_a_token_is_typed_in_and_kept_in_the_tab(guarded: Site, watched: Watched) -> None:
    page = watched.open()
    watched.refusals = True
    asked: list[str | None] = []
    page.on("request", lambda r: asked.append(r.headers.get("authorization")) if "/v1/" in r.url else None)
    page.goto(f"{guarded.url}#/views/spending")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("needs a token")
    field = dialog.get_by_label("Token")
    expect(field).to_be_focused()
    field.fill("x" * 20)
    field.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("TM8005")
    dialog.get_by_label("Token").fill(READ)
    dialog.get_by_label("Token").press("Enter")
    expect(dialog).to_be_hidden()
    expect(page.locator("table.rows tbody tr", has_text="ann")).to_be_visible()
    guarded.add(("ann", 1))
    expect(page.locator("table.rows tbody tr", has_text="ann").locator("td").nth(1)).to_have_text("2")
    assert f"Bearer {READ}" in asked and READ not in page.url
    stored = "[JSON.stringify(sessionStorage), JSON.stringify(localStorage), document.cookie]"
    in_session, in_local, cookies = page.evaluate(stored)
    assert READ in in_session and READ not in in_local and cookies == ""
    page.goto(f"{guarded.url}#/sql")
    page.get_by_label("SQL statement").fill("DROP VIEW spending")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("alert")).to_contain_text("TM8004")
    page.get_by_role("button", name="Forget token").click()
    expect(dialog).to_be_visible()
    assert READ not in page.evaluate("JSON.stringify(sessionStorage)")


def test_the_page_needs_no_token_and_data_do(guarded: Site) -> None:
    with httpx.Client(base_url=guarded.server.addresses["http"]) as http:
        assert {http.get(f"/dashboard/{name}").status_code for name in assets()} == {200}
        assert (http.get("/").headers["location"], http.get("/docs").headers["location"]) == (
            "/dashboard/",
            "/dashboard/#/api",
        )
        for path in ("/v1/views", "/v1/state", "/v1/sources", "/v1/vocabulary", "/openapi.json", "/v1/epochs"):
            assert http.get(path).status_code == 401, path
        for path in ("/dashboard/../v1/views", "/dashboard/%2e%2e/pages.py", "/dashboard/nothing", "/dashboardx"):
            assert http.get(path).status_code in (401, 404), path
        assert "SELECT" not in http.get("/dashboard/").text
        cookie = {"Cookie": f"tidemill_token={READ}"}
        assert http.get("/v1/views", headers=cookie).status_code == 401


def test_answers_tell_browsers_what_is_allowed(site: Site) -> None:
    with httpx.Client(base_url=site.server.addresses["http"]) as http:
        answer = http.get("/dashboard/")
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert http.get("/dashboard/", headers={"Host": "evil.example"}).status_code == 421
        tag = http.get("/dashboard/main.js").headers["etag"]
        again = http.get("/dashboard/main.js", headers={"If-None-Match": tag})
        assert (again.status_code, again.content) == (304, b"")


def test_nothing_comes_from_elsewhere(site: Site, page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for panel in ("", "views/spending", "sql", "api"):
        page.goto(f"{site.url}#/{panel}")
        expect(page.locator("main .box").first).to_be_visible()
    assert len(asked) > 20
    assert {url for url in asked if not url.startswith(site.server.addresses["http"])} == set()
    for name, asset in assets().items():
        text = asset.content.decode()
        assert "innerHTML" not in text and "://" not in text.replace("http://www.w3.org", ""), name
