"""The page in a real Chromium, out of a real Airflow with subscriptions in five broken states.

`SCREENSHOTS=1 pytest tests/e2e/test_page_in_chromium.py` writes the pictures of the pages anew.
"""

import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest
from checkout import PROJECT
from chromium import Visitor, chromium, visitor
from page_paths import MOST_CLICKS, PATHS, THE_NAME, ClickPath
from page_stack import PASSWORDS, PageStack, page_stack
from page_states import BROKEN, HOSTILE, HOSTILE_FILE, hostile, set_up
from playwright.sync_api import Browser, Frame, Locator, Page, StorageState, expect

from tidegate_airflow.page.actions_forms import ACTIONS
from tidegate_local.airflow_home import USER
from tidegate_local.broker import Broker

pytestmark = [pytest.mark.e2e, pytest.mark.airflow, pytest.mark.broker, pytest.mark.timeout(600)]

LIST = "/tidegate/page/"
PANELS = (
    "verdict",
    "lag",
    "partitions",
    "open-batch",
    "batches",
    "failures",
    "dead-letters",
    "retries",
    "group",
    "definition",
    "audit",
)
MAY_NOT_ACT = {"vera": "vera may not change payments", "opal": "only whom TIDEGATE_OPERATORS names"}
"""Users, and why: a viewer, and an operator of Airflow's who isn't one of Tidegate's."""
VERDICTS = ("UNREACHABLE", "STOPPED", "STALLED", "REWOUND", "WARN", "OK")
IMAGES = PROJECT / "docs/images"
TAKES_PICTURES = bool(os.environ.get("SCREENSHOTS"))
MARK = "" if TAKES_PICTURES else f"-{uuid.uuid4().hex[:8]}"
WAIT_MS = 120_000
LARGEST = 200_000  # bytes of a picture
NARROW = 400  # pixels

Visit = Callable[..., AbstractContextManager[Visitor]]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Iterator[PageStack]:
    folder = _folder_in_pictures() if TAKES_PICTURES else tmp_path_factory.mktemp("page")
    with page_stack(folder, broker, MARK) as made:
        set_up(made)
        yield made


def _folder_in_pictures() -> Path:
    """A folder whose name says nothing of who takes them."""
    folder = Path(tempfile.gettempdir()) / "tidegate"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def sessions(stack: PageStack, browser: Browser) -> dict[str, StorageState]:
    """The cookies of each user, who has logged in by Airflow's form."""
    return {user: _logged_in(browser, stack.url, user) for user in PASSWORDS}


def _logged_in(browser: Browser, url: str, user: str) -> StorageState:
    with visitor(browser, url) as visit:
        page = visit.page
        page.goto("/", wait_until="domcontentloaded")
        page.get_by_label("Username").or_(page.locator("input[name=username]")).first.fill(user)
        page.locator("input[name=password]").fill(PASSWORDS[user])
        page.locator("button[type=submit]").click()
        page.wait_for_url(f"{url}/")
        return visit.context.storage_state()


@pytest.fixture
def visit(stack: PageStack, browser: Browser, sessions: dict[str, StorageState]) -> Visit:
    """`with visit("vera", width=400) as visitor`: somebody who is logged in."""

    def begin(user: str = USER, **values: int | bool) -> AbstractContextManager[Visitor]:
        return visitor(browser, stack.url, session=sessions[user], **values)

    return begin


@pytest.fixture
def page(visit: Visit) -> Iterator[Page]:
    """A page of the administrator's, about which nothing may complain."""
    with visit() as somebody:
        yield somebody.page
        assert somebody.complaints == []


def address(name: str) -> str:
    return f"{LIST}subscriptions/{name}"


def row(page: Page | Frame, name: str) -> Locator:
    return page.locator(f'[data-subscription="{name}"]')


def panel(page: Page | Frame, name: str) -> Locator:
    return page.locator(f'[data-panel="{name}"]')


def frame(page: Page) -> Frame:
    """The page within Airflow's."""
    inside = page.wait_for_selector("iframe").content_frame()
    assert inside is not None
    return inside


def test_airflows_navigation_has_the_list_and_each_dag_a_tab(page: Page) -> None:
    page.goto("/", wait_until="domcontentloaded")
    page.get_by_role("link", name="Tidegate", exact=True).click()
    expect(row(frame(page), "clicks")).to_be_visible()
    page.goto("/dags/clicks", wait_until="domcontentloaded")
    page.locator('a[href$="/dags/clicks/plugin/tidegate-subscription"]').click()  # a tag is called so, too
    inside = frame(page)
    expect(inside.get_by_role("heading", level=1)).to_contain_text("clicks")
    expect(panel(inside, "verdict")).to_contain_text("OK")


def test_a_link_to_a_run_leads_airflow_itself_there(page: Page) -> None:
    page.goto("/dags/payments/plugin/tidegate-subscription", wait_until="domcontentloaded")
    panel(frame(page), "batches").locator("a[data-airflow]").first.click()
    page.wait_for_url("**/dags/payments/runs/manual__*")
    expect(page.locator("iframe")).to_have_count(0)


@pytest.mark.parametrize("link", ["Subscription", "Batch"])
def test_a_task_in_airflow_links_to_its_subscription_and_its_batch(page: Page, link: str) -> None:
    page.goto(f"{address('payments')}/batches")
    run = page.locator("a[data-airflow]").first.get_attribute("href")
    batch = page.locator('a[href*="/batches/"]').first.inner_text()
    page.goto(f"{run}/tasks/process/details", wait_until="domcontentloaded")
    page.get_by_role("link", name=link, exact=True).click()
    page.wait_for_url(f"**{address('payments')}{f'/batches/{batch}' if link == 'Batch' else ''}")
    expect(page.locator("main")).to_contain_text(batch)


@pytest.mark.parametrize("chosen", ["Dark", "Light"])
def test_the_page_is_as_dark_as_airflow(visit: Visit, chosen: str) -> None:
    with visit(dark=chosen == "Light") as somebody:
        page = somebody.page
        page.goto("/", wait_until="domcontentloaded")
        page.get_by_role("button", name="User").click()
        page.get_by_role("menuitem", name="Appearance").click()
        page.get_by_role("menuitemradio", name=f"{chosen} Mode").click()
        page.get_by_role("link", name="Tidegate").click()
        inside = frame(page)
        expect(row(inside, "clicks")).to_be_visible()
        assert inside.evaluate("getComputedStyle(document.documentElement).colorScheme") == chosen.lower()
        assert somebody.complaints == []


def test_the_worst_comes_first(page: Page) -> None:
    page.goto(LIST)
    rows = page.locator("[data-subscription]")
    seen = {row.get_attribute("data-subscription"): row.get_attribute("data-verdict") for row in rows.all()}
    assert {name: seen[name] for name in BROKEN} == {name: broken.verdict for name, broken in BROKEN.items()}
    ranks = [VERDICTS.index(str(verdict)) for verdict in seen.values()]
    assert ranks == sorted(ranks)
    for name, broken in BROKEN.items():
        expect(row(page, name)).to_contain_text(broken.reason)


@pytest.mark.parametrize("name", [*BROKEN, "clicks", "invoices", "returns"])
def test_every_panel_is_there(page: Page, name: str) -> None:
    page.goto(address(name))
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    for each in PANELS:
        expect(panel(page, each)).to_be_visible()
    verdict, reason = (BROKEN[name].verdict, BROKEN[name].reason) if name in BROKEN else ("OK", "")
    expect(panel(page, "verdict")).to_contain_text(verdict)
    expect(panel(page, "verdict")).to_contain_text(reason)
    first = page.locator("[data-panel]").first
    assert first.get_attribute("data-panel") == "verdict"


SAYS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "clicks": {
        "lag": ("Records", "0"),
        "partitions": ("clicks",),
        "open-batch": ("No batch is open",),
        "batches": ("40 + 0 + 0", "committed"),
        "failures": ("No delivery",),
        "group": ("-lake",),
        "audit": ("Nobody",),
    },
    "invoices": {"lag": ("240", "falls")},
    "payments": {
        "open-batch": ("stopped", "1 of 1", "32 landed"),
        "batches": ("stopped", "not processed", "manual__"),
        "failures": ("12,50", "payments", "A record that failed"),
    },
    "orders": {"open-batch": ("asking", "24 landed"), "dead-letters": ("dead-orders",)},
    "refunds": {"definition": ("refunds.yaml:8",)},
    "returns": {"definition": ("failure-strategy", "dead-letter-queue", "returns.yaml"), "batches": ("dead-lettered",)},
}
"""Words in panels."""


@pytest.mark.parametrize("name", SAYS)
def test_panels_say_what_is_so(page: Page, name: str) -> None:
    page.goto(address(name))
    for each, texts in SAYS[name].items():
        for text in texts:
            expect(panel(page, each)).to_contain_text(text)


def test_the_plot_of_the_lag_is_there_for_those_who_cant_see_it(page: Page) -> None:
    page.goto(address("invoices"))
    expect(panel(page, "lag").get_by_role("img", name="Lag in records over time")).to_be_visible()


def test_what_kafka_has_to_be_asked_for_comes_on_demand(page: Page) -> None:
    page.goto(address("returns"))
    page.get_by_role("button", name="Show dead letters").click()
    expect(panel(page, "dead-letters")).to_contain_text("no such column: reason_code")
    page.get_by_role("button", name="Ask who is in the group").click()
    expect(panel(page, "group")).to_contain_text("Tidegate joins no group")


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.subscription)
def test_cause_and_cure_are_three_clicks_from_the_list_at_most(page: Page, path: ClickPath) -> None:
    page.goto(LIST)
    first, *others = path.clicks
    assert (first, len(path.clicks) <= MOST_CLICKS) == (THE_NAME, True)
    page.get_by_role("link", name=path.subscription, exact=True).click()
    expect(panel(page, path.panel)).to_contain_text(path.cause)
    for click in others:
        control = page.get_by_role("link", name=click, exact=True).or_(page.get_by_role("button", name=click)).first
        expect(control).to_be_visible()  # a click doesn't wait for the page that it leads to
        fill(page, {name: value for name, value in path.fields.items() if page.locator(f"[name={name}]").count()})
        control.click()
    expect(page.locator("main")).to_contain_text(path.cure)


def fill(page: Page, fields: Mapping[str, str]) -> None:
    """Fill a form's fields in."""
    for name, value in fields.items():
        field = page.locator(f"[name={name}]")
        if field.evaluate("element => element.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)


def test_a_reset_is_offered_for_the_partitions_whose_records_are_gone_alone(stack: PageStack, page: Page) -> None:
    page.goto(address("stock"))
    expect(panel(page, "verdict")).to_contain_text(f"--partitions {stack.topic('stock')}:0,1")
    panel(page, "verdict").get_by_role("link", name="Reset the group", exact=True).click()
    page.locator("[name=to]").fill("earliest")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("main")).to_contain_text(f"{stack.topic('stock')}-0")
    expect(page.locator("main")).not_to_contain_text(f"{stack.topic('stock')}-2")


@pytest.mark.parametrize("path", ["", *(f"subscriptions/{name}" for name in (*BROKEN, "clicks", "returns"))])
def test_nothing_scrolls_sideways_on_a_narrow_screen(visit: Visit, path: str) -> None:
    with visit(width=NARROW) as somebody:
        somebody.page.goto(LIST + path)
        somebody.page.wait_for_load_state("networkidle")
        wide = somebody.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= NARROW
        assert somebody.complaints == []


def test_a_keyboard_is_enough(page: Page) -> None:
    page.goto(LIST)
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.locator(":focus")
        assert focused.evaluate("element => getComputedStyle(element).outlineStyle") != "none"
        if focused.inner_text().strip() == "payments":
            break
    else:
        raise AssertionError("Tab doesn't reach payments")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{address('payments')}")
    expect(panel(page, "verdict")).to_contain_text("STOPPED")


CONTRASTS = """
() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const bytes = colour => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const luminance = rgb => [0.2126, 0.7152, 0.0722].reduce((sum, part, at) => sum + part * linear(rgb[at] / 255), 0);
  const behind = element => {
    for (; element; element = element.parentElement) {
      const found = bytes(getComputedStyle(element).backgroundColor);
      if (found[3] === 255) return found;
    }
    return [255, 255, 255];
  };
  const contrast = element => {
    const style = getComputedStyle(element);
    const own = bytes(element instanceof SVGElement ? style.fill : style.color);
    const [low, high] = [own, behind(element)].map(luminance).sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const isText = node => node.nodeType === Node.TEXT_NODE && node.textContent.trim();
  return [...document.querySelectorAll("body *")]
    .filter(element => [...element.childNodes].some(isText) && element.checkVisibility() && contrast(element) < 4.5)
    .map(element => `${element.textContent.trim().slice(0, 40)}: ${contrast(element).toFixed(2)}`);
}
"""
"""Texts whose contrast with what is behind them is less than WCAG's 4.5."""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_can_be_read_in_light_and_dark(visit: Visit, dark: bool) -> None:
    with visit(dark=dark) as somebody:
        for path in (LIST, *map(address, ("payments", "clicks"))):
            somebody.page.goto(path)
            somebody.page.wait_for_load_state("networkidle")
            back = somebody.page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (sum(map(int, re.findall(r"\d+", back)[:3])) < 3 * 128) is dark
            assert somebody.page.evaluate(CONTRASTS) == []
        assert somebody.complaints == []


@pytest.mark.parametrize("chosen", ["light", "dark"])
def test_what_was_chosen_in_airflow_comes_before_what_the_system_has(visit: Visit, chosen: str) -> None:
    with visit(dark=chosen == "light") as somebody:
        somebody.context.add_init_script(f"localStorage.setItem('theme', '{chosen}')")
        somebody.page.goto(LIST)
        scheme = somebody.page.evaluate("getComputedStyle(document.documentElement).colorScheme")
        assert scheme == chosen


@pytest.mark.parametrize("user", MAY_NOT_ACT)
def test_who_may_not_act_sees_all_and_is_offered_nothing(visit: Visit, user: str) -> None:
    with visit(user) as somebody:
        for name in BROKEN:
            somebody.page.goto(address(name))
            expect(panel(somebody.page, "verdict")).to_contain_text(BROKEN[name].reason)
            expect(somebody.page.locator("[data-action], a[href*='/actions']")).to_have_count(0)
        assert somebody.complaints == []


@pytest.mark.parametrize("user", MAY_NOT_ACT)
def test_who_may_not_act_is_refused_whatever_their_browser_sends(visit: Visit, user: str) -> None:
    with visit(user) as somebody:
        page = somebody.page
        page.goto(address("payments"))
        sent = {f"{address('payments')}/actions/{each}{step}" for each in ACTIONS for step in ("", "/preview")}
        assert {path: page.evaluate(POST, [path, "answer=skip&confirm=payments"]) for path in sent} == dict.fromkeys(
            sent, 403
        )
        page.goto(f"{address('payments')}/actions/clear")
        expect(page.get_by_role("heading", name="Not allowed")).to_be_visible()
        expect(page.locator("main")).to_contain_text(MAY_NOT_ACT[user])
        page.goto(address("payments"))
        expect(panel(page, "open-batch")).to_contain_text("stopped")


POST = """
async ([path, form]) => {
  const headers = {"Content-Type": "application/x-www-form-urlencoded"};
  return (await fetch(path, {method: "POST", headers, body: form, redirect: "manual"})).status;
}
"""
"""A POST with the user's cookies, as a form of the page would send it; its status."""


def keep_picture(page: Page, name: str) -> None:
    """Into the documentation where pictures are asked for, else nowhere; bounded in either case."""
    page.wait_for_load_state("networkidle")
    taken = page.screenshot(animations="disabled", caret="hide")
    assert len(taken) <= LARGEST, f"{name}: {len(taken)} bytes"
    if TAKES_PICTURES:
        (IMAGES / f"{name}.png").write_bytes(taken)


@pytest.mark.parametrize(
    ("name", "path", "window"),
    [
        ("page-list", "", {}),
        ("page-list-narrow", "", {"width": NARROW}),
        ("page-stopped", "subscriptions/payments", {"height": 1750}),
        ("page-stopped-dark", "subscriptions/payments", {"height": 1750, "dark": True}),
        ("page-lag", "subscriptions/invoices", {}),
    ],
)
def test_the_documentation_has_pictures_of_it(visit: Visit, name: str, path: str, window: dict[str, int]) -> None:
    with visit(**window) as somebody:
        somebody.page.goto(LIST + path)
        keep_picture(somebody.page, name)
        assert somebody.complaints == []


def test_the_documentation_has_a_picture_of_what_an_action_would_do(page: Page) -> None:
    page.goto(f"{address('payments')}/actions/clear")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("[data-summary]")).to_be_visible()
    keep_picture(page, "page-preview")


@dataclass(frozen=True)
class Deed:
    """An action on a subscription: what is written into its form, and words of its preview."""

    name: str
    subscription: str
    fields: Mapping[str, str]
    preview: str

    def __str__(self) -> str:
        return f"{self.name}-{self.subscription}"


DEEDS = (
    Deed("clear", "payments", {"answer": "redeliver", "note": "the job takes commas now"}, "delivered again"),
    Deed("clear", "orders", {"answer": "skip", "note": "test data"}, ""),
    Deed("commit", "exports", {}, ""),
    Deed("reset", "stock", {"to": "earliest"}, ""),
    Deed("replay", "clicks", {"from": "earliest", "to": "latest", "output": "lake/clicks-again"}, ""),
    Deed("redrive", "returns", {}, ""),
    Deed("drain", "invoices", {"runs": "2"}, ""),
    Deed("run", "clicks", {}, ""),  # not of one whose runs are under way, each of which makes a preview out of date
)


@pytest.fixture(scope="module")
def runs(stack: PageStack, browser: Browser, sessions: dict[str, StorageState]) -> dict[str, str]:
    """The address of the page of each deed's run, by the deed: previewed, confirmed and begun, one after the other."""
    stack.correct_the_job()
    stack.unpause("invoices", "clicks")
    with visitor(browser, stack.url, session=sessions[USER]) as somebody:
        begun = {str(deed): _do(somebody.page, deed) for deed in DEEDS}
        assert somebody.complaints == []
    return begun


def _do(page: Page, deed: Deed) -> str:
    page.goto(address(deed.subscription))
    page.locator(f'a[href*="/actions/{deed.name}"]').first.click()
    form = page.locator(f'form[data-action="{deed.name}"][data-step="form"]')
    fill(page, deed.fields)
    form.get_by_role("button", name="Preview").click()
    expect(page.locator("[data-summary]")).to_contain_text(deed.preview)
    confirm = page.locator(f'form[data-action="{deed.name}"][data-step="confirm"]')
    confirm.locator("[name=confirm]").fill(deed.subscription)
    confirm.locator("button").click()
    page.wait_for_url("**/runs/*")
    return page.url


@pytest.mark.parametrize("deed", DEEDS, ids=str)
def test_each_action_is_previewed_confirmed_and_done(page: Page, runs: dict[str, str], deed: Deed) -> None:
    page.goto(runs[str(deed)])
    expect(page.locator('[data-run="success"]')).to_be_visible(timeout=WAIT_MS)


@pytest.fixture(scope="module")
def hostile_stack(stack: PageStack) -> PageStack:
    """The same, from here on with a subscription whose every text is a script."""
    hostile(stack)
    return stack


@pytest.mark.usefixtures("hostile_stack")
def test_no_text_of_somebody_elses_is_a_script(page: Page) -> None:
    page.goto(LIST)
    expect(row(page, HOSTILE)).to_contain_text("<script>")
    expect(row(page, HOSTILE_FILE)).to_be_visible()
    assert not was_hacked(page)
    page.goto(address(HOSTILE))
    for each in ("verdict", "definition", "audit", "failures"):
        expect(panel(page, each)).to_contain_text("<script>")
    page.wait_for_load_state("networkidle")
    assert not was_hacked(page)


def was_hacked(page: Page) -> bool:
    return bool(page.evaluate("'hacked' in window || document.querySelector('img[onerror]') !== null"))
