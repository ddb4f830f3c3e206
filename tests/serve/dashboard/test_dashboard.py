"""The dashboard in a browser: rows as they change, SQL, keyboard, themes, widths, and a server that goes away."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from site_of_orders import Site, Watched

VIEW = "views/spending"
PANELS = ("", "views", VIEW, f"{VIEW}/plan", f"{VIEW}/definition", "sources", "epochs", "state", "sql", "api")
_PAINTED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def cells(page: Page) -> list[list[str]]:
    """The rows of the view that is shown."""
    return [row.split("\t") for row in page.locator("table.rows tbody tr").all_inner_texts()]


def test_a_row_changes_where_it_stands(site: Site, page: Page) -> None:
    page.goto(f"{site.url}#/views/spending")
    ann = page.locator("table.rows tbody tr", has_text="ann")
    expect(ann).to_have_text(re.compile(r"^ann"))
    bob = page.locator("table.rows tbody tr", has_text="bob").element_handle()
    before = {r["customer"]: r for r in site.mill.read("spending").to_pylist()}
    site.add(("ann", 1000), ("cid", 2))
    expect(ann.locator("td").nth(2)).to_have_text(f"{before['ann']['amount'] + 1000:,}")
    expect(page.locator("table.rows tbody tr", has_text="cid")).to_have_class("came")
    assert bob is not None and bob.is_visible(), "a row that did not change stays the same element"
    expected = sorted([r["customer"], str(r["n"]), f"{r['amount']:,}"] for r in site.mill.read("spending").to_pylist())
    assert cells(page) == expected
    expect(page.locator(".rows-chart .bar-value").first).to_have_text(str(before["ann"]["n"] + 1))
    page.get_by_role("button", name="amount", exact=True).click()
    page.get_by_role("button", name="amount", exact=True).click()
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("amount")
    expect(page.locator("table.rows tbody tr").first).to_contain_text("ann")


def test_the_first_rows_of_a_large_view_stay_the_first(site: Site, page: Page) -> None:
    site.add(*((f"c{n:03}", n) for n in range(200)))
    page.goto(f"{site.url}#/views/spending")
    page.get_by_role("combobox", name="Rows").select_option("25")
    page.get_by_role("button", name="amount", exact=True).click()
    page.get_by_role("button", name="amount", exact=True).click()
    note = page.locator(".rows-box .box-head")
    expect(note).to_contain_text("the first 25 of")
    expect(note).to_contain_text("by amount, descending")
    for orders in ([("c000", 100_000)], [(f"c{n:03}", -n) for n in range(150, 200)], [("c001", 90_000), ("zoe", 1)]):
        site.add(*orders)
        rows = site.mill.read("spending").to_pylist()
        expect(note).to_contain_text(f"of {len(rows):,} rows")
        expect(note).to_contain_text(f"epoch {site.mill.epoch}")
        found = sorted(rows, key=lambda r: -r["amount"])[:25]
        expect(page.locator("table.rows tbody td:nth-child(3)")).to_have_text([f"{r['amount']:,}" for r in found])
    page.get_by_label("Condition in SQL").fill("amount > 80000")
    page.get_by_role("button", name="Filter").click()
    expect(note).to_contain_text("2 rows")
    assert {row[0] for row in cells(page)} == {"c000", "c001"}


@pytest.mark.parametrize("name", ["a/b", "ü%", "changes", "a,`b` ?#&"])
def test_a_view_of_any_name(site: Site, page: Page, name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    site.mill.sql(f"CREATE MATERIALIZED VIEW {quoted} AS SELECT COUNT(*) AS n FROM orders")
    try:
        site.add(("ann", 3))
        page.goto(f"{site.url}#/views")
        page.locator("#content").get_by_role("link", name=name, exact=True).click()
        expect(page.get_by_role("heading", name=name)).to_be_visible()
        for _ in range(2):
            (row,) = site.mill.read(name).to_pylist()
            expect(page.locator("table.rows tbody tr")).to_have_text(f"{row['n']:,}")
            site.add(("of a name", 4))
        page.get_by_role("link", name="Plan", exact=True).click()
        expect(page.locator("svg.plan")).to_be_visible()
        page.get_by_role("link", name="Definition", exact=True).click()
        expect(page.locator("pre.text").first).to_contain_text("COUNT(*)")
    finally:
        site.mill.sql(f"DROP VIEW {quoted}")


MODEL = """async ({ start, total, asked, wanted, descending, events }) => {
  const { LiveRows } = await import("/dashboard/view/live_rows.js");
  const rows = new LiveRows(["k", "v"], ["string", "bigint"], 1, descending, wanted, asked);
  rows.start(start, total);
  const seen = [];
  for (const changes of events) {
    const enough = rows.apply(changes);
    seen.push([enough, rows.total, rows.kept.flatMap((e) => Array(e.count).fill(e.values)).slice(0, wanted)]);
    if (!enough) break;
  }
  return seen;
}"""


def test_first_rows_in_the_page_against_a_list(site: Site, page: Page, seed: int) -> None:
    chance = random.Random(seed)
    page.goto(site.url)
    read_anew = 0
    for _ in range(60):
        descending, wanted = chance.random() < 0.5, chance.randrange(1, 8)
        asked = wanted * 2
        place = lambda row: (row[1] is None, 0 if row[1] is None else -row[1] if descending else row[1])  # noqa: B023,E731
        make = lambda: (chance.choice("abc"), chance.choice([None, *range(6)]))  # noqa: E731
        rows = [make() for _ in range(chance.randrange(30))]
        start = sorted(rows, key=place)[:asked]
        total, events, expected = len(rows), [], []
        for _ in range(12):
            changes = []
            for _ in range(chance.randrange(1, 5)):
                if rows and chance.random() < 0.5:
                    gone = rows.pop(chance.randrange(len(rows)))
                    changes.append({"weight": -1, "k": gone[0], "v": gone[1]})
                else:
                    rows.append(make())
                    changes.append({"weight": 1, "k": rows[-1][0], "v": rows[-1][1]})
            net = Counter((c["k"], c["v"]) for c in changes if c["weight"] > 0)
            net.subtract((c["k"], c["v"]) for c in changes if c["weight"] < 0)
            events.append([{"weight": n, "k": k, "v": v} for (k, v), n in net.items() if n])
            expected.append((len(rows), [place(row) for row in sorted(rows, key=place)[:wanted]], Counter(rows)))
        given = {"start": start, "total": total, "asked": asked, "wanted": wanted, "descending": descending}
        seen = page.evaluate(MODEL, {**given, "events": events})
        for (enough, count, shown), (length, first, whole) in zip(seen, expected, strict=False):
            if not enough:
                read_anew += 1
                break
            assert (count, [place(tuple(row)) for row in shown]) == (length, first)
            assert not Counter(map(tuple, shown)) - whole, "every row that is shown is a row of the view"
    assert read_anew, "some views lost so many rows that they had to be read anew"


def test_digits_that_a_double_does_not_hold(site: Site, page: Page) -> None:
    site.add(("big", 9_007_199_254_740_993))
    page.goto(f"{site.url}#/views/spending")
    expect(page.locator("table.rows tbody tr", has_text="big")).to_contain_text("9,007,199,254,740,993")
    site.add(("big", -9_007_199_254_740_993))
    expect(page.locator("table.rows tbody tr", has_text="big").locator("td").nth(2)).to_have_text("0")


def test_decimals_show_the_scale_of_their_type(site: Site, page: Page, seed: int) -> None:
    """As Python writes them; a page that reads 284013874.40 as a number has 284013874.4."""
    chance = random.Random(seed)
    values = []
    for _ in range(300):
        scale = chance.randrange(0, 12)
        digits = chance.randrange(-(10 ** chance.randrange(1, 15)), 10 ** chance.randrange(1, 15))
        values.append((Decimal(digits).scaleb(-scale), f"decimal(38,{scale})"))
    page.goto(site.url)
    found = page.evaluate(
        """async (values) => {
          const { cell } = await import("/dashboard/core/format.js");
          return values.map(([value, type]) => cell(value, type));
        }""",
        [[float(value), type_] for value, type_ in values],
    )
    assert found == [f"{value:,f}" for value, _ in values]


def test_the_area_of_a_line_begins_at_0(site: Site, page: Page) -> None:
    page.goto(site.url)
    ticks = page.evaluate(
        """async (series) => {
          const { lines } = await import("/dashboard/charts/lines.js");
          const found = [];
          for (const points of series) {
            const chart = lines("drawn by a test");
            document.body.append(chart.element);
            chart.show(points);
            while (!chart.element.querySelector(".area")) await new Promise(requestAnimationFrame);
            found.push([...chart.element.querySelectorAll(".tick[text-anchor=end]")].map((t) => t.textContent));
            chart.element.remove();
          }
          return found;
        }""",
        [[[1, 40], [2, 60]], [[1, -40], [2, -60]], [[1, 0], [2, 0]]],
    )
    assert all("0" in shown for shown in ticks), ticks


def test_statements_errors_and_completion(site: Site, watched: Watched) -> None:
    page = watched.open()
    watched.refusals = True  # an answer of 400 is wanted
    page.goto(f"{site.url}#/sql")
    area = page.get_by_label("SQL statement")
    with page.expect_response("**/v1/vocabulary"):
        page.reload()
    area.press_sequentially("SELECT cust")
    expect(page.get_by_role("listbox")).to_be_hidden()
    area.fill("")
    area.press_sequentially("SELECT * FROM spe")
    expect(page.get_by_role("option").first).to_have_text(re.compile("^spending"))
    area.press("Enter")
    area.press_sequentially(" WHERE cu")
    expect(page.get_by_role("option", selected=True)).to_have_text(re.compile("^customer"))
    area.press("Tab")
    area.press_sequentially(" = 'bob'")
    expect(area).to_have_value("SELECT * FROM spending WHERE customer = 'bob'")
    area.press("Control+Enter")
    result = page.get_by_role("region", name="Result").locator("tbody tr")
    bob = next(r for r in site.mill.read("spending").to_pylist() if r["customer"] == "bob")
    expect(result).to_have_count(1)
    expect(result.locator("td")).to_have_text(["bob", str(bob["n"]), f"{bob['amount']:,}"])
    area.fill("SELECT customer,\n  nothing_of_this\nFROM spending")
    area.press("Control+Enter")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("TM2004")
    expect(page.locator(".layer .wrong")).to_have_text("nothing_of_this")
    expect(page.locator(".answer")).to_contain_text("line 2, column 3")
    area.fill("EXPLAIN INCREMENTAL SELECT COUNT(*) FROM orders")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("region", name="Plan").locator("pre")).to_contain_text("superstep 0")


def test_the_keyboard_reaches_everything(site: Site, page: Page) -> None:
    page.goto(site.url)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.evaluate(_PAINTED)  # what was drawn last must not move the place that Tab goes on from
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    names = []
    for _ in range(11):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.textContent"))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", names
    assert names[1:10] == ["Overview", "Views", "Sources", "Epochs", "State", "Queues", "SQL", "Logs", "HTTP API"]
    page.keyboard.press("Shift+Tab")
    for _ in range(7):
        page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Views", level=1)).to_be_visible()
    assert page.evaluate("document.activeElement.id") == "content"
    expect(page.get_by_role("link", name="spending")).to_be_visible()
    reached = False
    for _ in range(6):
        page.keyboard.press("Tab")
        reached = reached or page.evaluate("document.activeElement.textContent") == "spending"
        if reached:
            break
    assert reached
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="spending", level=1)).to_be_visible()
    page.goto(f"{site.url}#/views/spending/plan")
    steps = page.locator("svg.plan .node")
    expect(steps.last).to_have_attribute("aria-pressed", "true")
    steps.last.focus()
    page.keyboard.press("Home")
    expect(steps.first).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".details")).to_contain_text("orders")


def test_the_plan_has_the_counters_of_epochs(site: Site, page: Page) -> None:
    page.goto(f"{site.url}#/views/total/plan")
    scan = page.locator("svg.plan .node").first
    expect(scan).to_have_attribute("aria-label", re.compile(r"rows in, [\d,]+ out"))
    site.add(*(("dan", 1) for _ in range(77)))
    page.get_by_role("button", name="Newest epoch").click()
    expect(scan).to_have_attribute("aria-label", re.compile(r"\b77 out"))


def test_epochs_appear(site: Site, page: Page) -> None:
    page.goto(f"{site.url}#/epochs")
    first = page.get_by_role("region", name="Newest epochs").locator("tbody tr").first.locator("td").first
    expect(first).to_have_text(str(site.mill.epoch))
    site.add(("ann", 1))
    expect(first).to_have_text(str(site.mill.epoch))
    page.locator("svg.timeline").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".about")).to_contain_text(f"Epoch {site.mill.epoch - 1},")


def test_light_dark_and_the_choice_is_remembered(site: Site, watched: Watched) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = "rgb(245, 247, 249)", "rgb(14, 19, 24)"
    page = watched.open(color_scheme="dark")
    page.goto(site.url)
    assert page.evaluate(ground) == dark
    switch = page.locator("#theme")
    switch.click()
    assert page.evaluate(ground) == light
    page.reload()
    assert page.evaluate(ground) == light
    switch.click()
    switch.click()
    page.emulate_media(color_scheme="light")
    expect(switch).to_have_text("Theme: system")
    assert page.evaluate(ground) == light


def test_motion_is_reduced_where_it_is_asked_for(site: Site, watched: Watched) -> None:
    page = watched.open(reduced_motion="reduce")
    page.goto(f"{site.url}#/views/spending")
    expect(page.locator("table.rows tbody tr").first).to_be_visible()
    site.add(("aaa", 3))
    came = page.locator("table.rows tr.came td").first
    expect(came).to_be_visible()
    assert came.evaluate("e => getComputedStyle(e).animationName") == "none"


@pytest.fixture(scope="module")
def phone(browser: Browser) -> Iterator[Watched]:
    """A page of a phone's width, which loads one panel after the other."""
    contexts: list[BrowserContext] = []
    watched = Watched(browser, contexts)
    watched.open(viewport={"width": 375, "height": 780})
    yield watched
    contexts[0].close()


@pytest.mark.parametrize("panel", PANELS)
def test_a_phone_does_not_scroll_sideways(site: Site, phone: Watched, panel: str) -> None:
    (page,) = phone.pages
    page.goto("about:blank")
    page.goto(f"{site.url}#/{panel}")
    expect(page.locator("main .box").first).to_be_visible()
    expect(page.locator("main")).not_to_contain_text("Loading")
    assert page.evaluate("document.documentElement.scrollWidth") == 375
    link = page.locator("#navigation [aria-current]").bounding_box()
    assert link is not None and link["x"] >= 0 and link["x"] + link["width"] <= 375
    assert phone.said == []


def test_a_server_that_goes_away_and_comes_back(site: Site, watched: Watched) -> None:
    page = watched.open()
    page.goto(f"{site.url}#/views/total")
    row = page.locator("table.rows tbody tr")
    expect(row).to_have_count(1)
    watched.refusals = True
    site.end()
    expect(page.locator("#notice")).to_contain_text("does not answer")
    site.add(("fay", 10))
    site.begin_again()
    expect(page.locator("#notice")).to_be_empty()
    (total,) = site.mill.read("total").to_pylist()
    expect(row.locator("td")).to_have_text([f"{total['n']:,}", f"{total['amount']:,}"])
    site.add(("fay", 20))
    expect(row.locator("td").last).to_have_text(f"{total['amount'] + 20:,}")


def test_panels_whose_routes_are_missing_say_so(site: Site, watched: Watched) -> None:
    page = watched.open()
    watched.refusals = True
    page.route("**/v1/queues", lambda route: route.fulfill(status=404, json={"number": "TM8016", "what": "none"}))
    page.route("**/v1/logs*", lambda route: route.fulfill(status=404, json={"number": "TM8016", "what": "none"}))
    for panel, path in (("queues", "/v1/queues"), ("logs", "/v1/logs")):
        page.goto(f"{site.url}#/{panel}")
        expect(page.locator("main")).to_contain_text(f"answers 404 to {path}")


def test_queues_and_logs(site: Site, page: Page) -> None:
    queue = {"table": "orders", "view": "spending", "state": "initialising", "waiting_files": 3, "waiting_bytes": 2048}
    queue |= {"epoch": 4, "lag_bytes": 4096, "lag_seconds": 1.25, "priority": 2}
    entry = {"number": 1, "time": 1735689600.0, "level": "warning", "event": "checkpoint", "message": "is late"}
    page.route("**/v1/queues", lambda route: route.fulfill(json={"epoch": 9, "queues": [queue]}))
    answers = iter([[{**entry, "fields": {"seconds": 3}}]])
    page.route("**/v1/logs*", lambda route: route.fulfill(json=next(answers, [])))
    page.goto(f"{site.url}#/queues")
    row = page.locator("main tbody td")
    expect(row).to_have_text(["orders", "spending", "initialising", "2 KiB", "3", "4 KiB", "1.25 s", "4", "2"])
    page.goto(f"{site.url}#/logs")
    expect(page.locator(".log li")).to_contain_text("checkpoint")
    expect(page.locator(".log li")).to_contain_text("is late seconds=3")


def test_queues_and_logs_of_the_server(site: Site, page: Page) -> None:
    asked = httpx.Client(base_url=site.url.replace("/dashboard/", ""))
    page.goto(f"{site.url}#/queues")
    queues = asked.get("/v1/queues").json()["queues"]
    expect(page.locator("main tbody tr")).to_have_count(len(queues))
    expect(page.locator("main tbody td:nth-child(2)")).to_have_text([queue["view"] for queue in queues])
    page.goto(f"{site.url}#/logs")
    view = "CREATE MATERIALIZED VIEW noted AS SELECT customer FROM orders"
    assert asked.post("/v1/sql", json={"statement": view}).status_code == 200
    executed = page.locator(".log li", has_text="statement.executed").first
    expect(executed).to_contain_text("kind=CREATE")
    expect(executed).to_contain_text("name=noted")
    assert asked.post("/v1/sql", json={"statement": "DROP VIEW noted"}).status_code == 200
    expect(page.locator(".log li", has_text="kind=DROP")).to_contain_text("name=noted")
    page.get_by_role("combobox", name="Level").select_option("error")
    expect(executed).to_have_count(0)


def test_the_interface_is_described_without_a_network(site: Site, page: Page) -> None:
    page.goto(site.url.replace("/dashboard/", "/docs"))
    expect(page.get_by_role("heading", name="HTTP API")).to_be_visible()
    operation = page.locator("details.operation", has_text="/v1/sql")
    operation.locator("summary").click()
    expect(operation).to_contain_text("timeout")
    expect(operation.locator(".command")).to_contain_text("curl -X POST")
