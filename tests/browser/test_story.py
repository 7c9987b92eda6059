"""The whole story in real browsers: from an account to a board that changed, and a trail that tells of it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from playwright.sync_api import Browser, BrowserContext, Page, expect

from portal.runs.sample_solutions import FOLDER
from tests.browser.conftest import CHROMIUM, Portal, manage

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt-get install chromium")

PASSWORD = "a horse that has no battery"
TOTP_SECRET = "JBSWY3DPEHPK3PXP"
TEAM, SYSTEM = "Night shift", "Night kernels"
APPEAL = "The sample answers a constant on purpose; we ask whether a person looks at it."
REASON = "Overturned to show that a decision of a person moves the board at once."
VERDICT_SECONDS = 45

MAKE_REVIEWER = f"""
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from portal.accounts.models import User
user = User.objects.create_user("judith", "judith@review.example", "{PASSWORD}", is_staff=True)
EmailAddress.objects.create(user=user, email=user.email, verified=True, primary=True)
Authenticator.objects.create(user=user, type="totp", data={{"secret": "{TOTP_SECRET}"}})
"""


class Person:
    """Somebody with a browser of their own."""

    def __init__(self, name: str, context: BrowserContext, mail: Path) -> None:
        self.name, self.page, self._mail = name, context.new_page(), mail
        self.address = f"{name}@night.example"
        self.complaints: list[str] = []
        self.page.on("console", self.note)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def note(self, message: object) -> None:
        if getattr(message, "type", "") in ("error", "warning"):
            self.complaints.append(str(getattr(message, "text", "")))

    def follow_mail(self, words: str) -> None:
        """Go where the latest message with `words` in its link leads."""
        for path in sorted(self._mail.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True):
            text = path.read_text(encoding="utf-8").replace("=\n", "")
            link = re.search(rf"https?://\S*{words}\S*", text)
            if self.address in text and link:
                self.page.goto(urlsplit(link[0]).path)
                return
        pytest.fail(f"{self.name} got no message with {words}")

    def sign_up(self) -> None:
        """Make an account and confirm its address."""
        page = self.page
        page.goto("/sign-up/")
        page.get_by_label("Username").fill(self.name)
        page.get_by_label("Email").or_(page.get_by_label("E-mail")).fill(self.address)
        page.get_by_label("Password", exact=True).fill(PASSWORD)
        page.get_by_label(re.compile("Password.*again")).fill(PASSWORD)
        page.get_by_role("button", name="Make the account").click()
        expect(page.get_by_text("A message with a link is on its way to you.")).to_be_visible()
        self.follow_mail("confirm")
        page.get_by_role("button", name="Confirm").click()
        if page.get_by_role("button", name="Sign out").count() == 0:
            self.sign_in()

    def sign_in(self) -> None:
        page = self.page
        page.goto("/sign-in/")
        page.get_by_label("Username").fill(self.name)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("main").get_by_role("button", name="Sign in", exact=True).click()


@pytest.fixture
def meet(browser: Browser, portal: Portal) -> Iterator[dict[str, Person]]:
    """Ada founds a team, Ben joins it, Judith reviews, and a visitor looks on."""
    contexts = [browser.new_context(base_url=portal.address, viewport={"width": 1280, "height": 900}) for _ in range(4)]
    for context in contexts:
        context.set_default_timeout(10_000)
    mail = Path(portal.variables["PORTAL_VAR"]) / "mail"
    names = ("ada", "ben", "judith", "visitor")
    people = {name: Person(name, context, mail) for name, context in zip(names, contexts, strict=True)}
    yield people
    for context in contexts:
        context.close()
    assert {name: person.complaints for name, person in people.items() if person.complaints} == {}


def read_board(page: Page) -> str:
    """Return what the board says of the system, in the environment that judged it."""
    page.goto("/")
    row = page.get_by_role("table", name="Standings in CPU interpreter").get_by_role("row", name=SYSTEM)
    return " ".join(row.inner_text().split())


def found_team(ada: Person, invited: str) -> None:
    """Found a team, create its system and invite somebody."""
    page = ada.page
    page.goto("/account/")
    page.get_by_role("link", name="Found a team").click()
    page.get_by_label("Name of the team").fill(TEAM)
    page.get_by_role("button", name="Found it").click()
    page.get_by_role("link", name="Create a system").click()
    page.get_by_label("Name").fill(SYSTEM)
    page.get_by_role("button", name="Create it").click()
    page.get_by_label("E-mail address").fill(invited)
    page.get_by_role("button", name="Send an invitation").click()
    expect(page.get_by_text(f"An invitation is on its way to {invited}.")).to_be_visible()


def submit_sample(ben: Person) -> str:
    """Submit a sample for everybody to see, and return the address of its run."""
    page = ben.page
    page.get_by_role("link", name="Submit a solution").click()
    expect(page.get_by_text(f"{TEAM} may submit 400 runs now")).to_be_visible()
    page.get_by_label("Task").select_option("l1-09")
    page.get_by_label("Solution file").set_input_files(FOLDER / "constant.py")
    page.get_by_label("Everybody").check()
    page.get_by_role("button", name="Submit the run").click()
    expect(page).to_have_url(re.compile("/runs/[0-9a-f-]{36}/$"))
    return urlsplit(page.url).path


def read_evidence(ben: Person) -> None:
    """Watch the run until it is rejected, and follow what decided to its gate."""
    page = ben.page
    state = page.get_by_role("heading", name="State:")
    expect(state).to_contain_text("Rejected", timeout=VERDICT_SECONDS * 1000)
    expect(page.locator(".failure-code").first).to_have_text("STALE_CONSTANT")
    decided = page.get_by_role("region", name="What decided")
    decided.get_by_role("link").first.click()
    expect(page).to_have_url(re.compile("#gate-"))


def appeal(ben: Person) -> None:
    page = ben.page
    page.get_by_text("Appeal against this verdict").click()
    page.get_by_label("Why the verdict is wrong").fill(APPEAL)
    page.get_by_role("button", name="Appeal", exact=True).click()
    expect(page.get_by_role("heading", name="Appeal: waits for a reviewer")).to_be_visible()


def overturn(judith: Person) -> None:
    """Sign in with a one-time code, take the case, and overturn the verdict with a reason."""
    judith.sign_in()
    page = judith.page
    page.get_by_label("code").fill(format_hotp_value(hotp_value(TOTP_SECRET, int(time.time()) // 30)))
    page.get_by_role("main").get_by_role("button", name="Sign in").first.click()
    page.get_by_role("link", name="Review").click()
    page.get_by_role("table").get_by_role("row", name=SYSTEM).get_by_role("link").first.click()
    expect(page.get_by_text(APPEAL).first).to_be_visible()
    page.get_by_role("button", name="Take the case").click()
    page.get_by_role("radio", name="Overturn the verdict").check()
    page.get_by_label("When overturned, the run is").select_option("accept")
    page.get_by_label("Reason, which the team reads").fill(REASON)
    page.get_by_role("button", name="Keep this decision").click()
    expect(page.get_by_text("kept, and shown to the team.")).to_be_visible()


def test_from_an_account_to_a_board_that_changed(meet: dict[str, Person], portal: Portal) -> None:
    ada, ben, judith, visitor = (meet[name] for name in ("ada", "ben", "judith", "visitor"))
    manage(portal.variables, "shell", "--verbosity", "0", "--command", MAKE_REVIEWER)
    ada.sign_up()
    found_team(ada, ben.address)
    ben.sign_up()
    ben.follow_mail("invitation")
    ben.page.get_by_role("button", name="Join the team").click()
    run = submit_sample(ben)
    read_evidence(ben)
    appeal(ben)
    before = read_board(visitor.page)
    overturn(judith)
    after = read_board(visitor.page)
    # One run, which counted as nothing, counts as accepted at once.
    assert ("of 1 rejected" in before, "of 0 rejected" in after) == (True, True)

    ben.page.goto(run)
    expect(ben.page.get_by_role("heading", name="Appeal: granted")).to_be_visible()
    expect(ben.page.get_by_text(REASON).first).to_be_visible()
    expect(ben.page.get_by_role("heading", name="State:")).to_contain_text("Accepted")
    ada.page.goto("/notifications/")
    expect(ada.page.get_by_role("main")).to_contain_text(SYSTEM)

    judith.page.goto("/review/trail/")
    told = judith.page.get_by_role("table")
    for action in ("run.submit", "case.take"):
        expect(told.get_by_text(action).first).to_be_visible()
    assert "The trail holds." in manage(portal.variables, "verify_trail")
