"""Attack text in every field of every entity: nothing of it is more than a text, wherever it is shown."""

import io
import re
from email import message_from_bytes
from email.policy import default
from html import unescape
from shutil import which

import httpx
import pypdf
import pytest
from aiosmtpd.controller import Controller
from argon2 import PasswordHasher
from playwright.sync_api import sync_playwright

from meterlake.pipeline.access import login
from meterlake.pipeline.documents.bill_emails import BILL_LETTERS
from meterlake.pipeline.jobs.waiting import run_round
from meterlake.stores.processes import free_port
from meterlake.worker.flow_runs import Executor
from tests.attack_text import ATTACKS, LINE, faults_of_letter, formulas_of, read_page
from tests.attacked_world import attacked
from tests.console_world import CONSOLE, MONTH, a_console
from tests.homes import configure
from tests.people import PASSWORD, allow

ADA = "ada@example.com"
# Kinds that have no text of their own that people choose.
TEXTLESS = {"accountPlans", "planGroupLinks"}
# A page takes a second in a browser; the parser has seen them all.
IN_BROWSER = 25
PAGES = ("", f"/months/{MONTH}", "/bills", "/customers", "/catalogue/products", "/data-in", "/runs")


class Mailbox:
    """What a mail server took."""

    def __init__(self):
        self.letters = []

    async def handle_DATA(self, _server, _session, envelope):  # noqa: N802
        self.letters.append(message_from_bytes(envelope.content, policy=default))
        return "250 OK"


class Failing(httpx.HTTPTransport):
    """What breaks a page closes the connection, too: that is an answer as good as any."""

    def handle_request(self, request):
        try:
            return super().handle_request(request)
        except (httpx.ReadError, httpx.RemoteProtocolError):
            return httpx.Response(httpx.codes.INTERNAL_SERVER_ERROR)


@pytest.fixture(scope="module", autouse=True)
def _quick_passwords():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        yield


@pytest.fixture(scope="module")
def mailbox():
    found = Mailbox()
    found.port = free_port()
    running = Controller(found, hostname="127.0.0.1", port=found.port)
    running.start()
    yield found
    running.stop()


@pytest.fixture(scope="module")
def found(tmp_path_factory, _quick_passwords, mailbox):
    """Every text of every entity is an attack."""
    settings = {
        "smtp_url": f"smtp://127.0.0.1:{mailbox.port}",
        "smtp_from": "billing@meter.example",
    }
    with attacked(tmp_path_factory.mktemp("attacked"), **settings) as made:
        made.world.join(ADA, allow())
        yield made


@pytest.fixture(scope="module")
def visited(found):
    """The answers of all pages and downloads, one of each shape, by address."""
    browser = found.world.browser(ADA)
    client = httpx.Client(
        base_url=found.world.url,
        cookies=browser.client.cookies,
        follow_redirects=True,
        timeout=60,
        transport=Failing(),
    )
    # Left open, it fails whichever test runs when it is collected.
    browser.client = found.world.opened.enter_context(client)
    answers = {}
    for address in browser.crawl():
        answers[address] = browser.page
    files = set()
    for page in list(answers.values()):
        if page.headers.get("content-type", "").startswith("text/html"):
            files |= {unescape(each) for each in re.findall(r'href="(/console[^"#]*)', page.text)}
    kinds = {re.sub(r"/[0-9a-f-]{36}|\d{4}-\d\d", "", each): each for each in sorted(files)}
    for address in kinds.values():
        if address not in answers:
            answers[address] = browser.client.get(address)
    return answers


def checked(answers):
    """How many attacks are shown as texts, and what became more than a text, by address."""
    shown, wrong = 0, {}
    for address, answer in answers.items():
        kind = answer.headers.get("content-type", "").partition(";")[0]
        faults = []
        if kind == "text/html":
            marks, faults = read_page(answer.text)
            shown += marks
        elif kind == "text/csv":
            faults = formulas_of(answer.text)
        faults += [f"a header {each}" for each in answer.headers if "attack" in each.lower()]
        if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
            faults.append(f"answered {answer.status_code}")
        if faults:
            wrong[address] = faults[:5]
    return shown, wrong


def test_what_people_write_stays_a_text_on_the_main_pages(tmp_path):
    with a_console(tmp_path) as world:
        configure(
            world.home.organization,
            accounts=[{"code": "acme", "name": LINE, "emailAddress": "a@acme.example"}],
            products=[{"code": "cloud", "name": LINE}],
        )
        world.join(ADA, allow())
        browser = world.browser(ADA)
        shown, wrong = checked({each: browser.client.get(f"{CONSOLE}{each}") for each in PAGES})
    assert wrong == {}
    assert shown >= 2


@pytest.mark.long
def test_every_kind_of_entity_takes_an_attack(found):
    assert {name for name, count in found.taken.items() if not count} <= TEXTLESS
    assert sum(found.taken.values()) > 200


@pytest.mark.long
def test_no_page_and_no_download_makes_more_of_a_text(visited):
    shown, wrong = checked(visited)

    assert wrong == {}
    assert shown > 500
    assert len(visited) > 100


@pytest.mark.long
def test_nor_do_documents_of_bills_and_the_customers_page(found):
    answers = {}
    with found.server.http() as http, httpx.Client(base_url=found.server.url) as anybody:
        for bill in http.get("/bills").json()["data"]:
            at = f"/bills/{bill['id']}/document"
            answers[f"html of {bill['accountCode']}"] = http.get(at, params={"format": "html"})
            made = http.get(at, params={"format": "pdf"})
            assert made.status_code == httpx.codes.OK, made.text
            pdf = pypdf.PdfReader(io.BytesIO(made.content))
            assert "attack()" in "".join(page.extract_text() for page in pdf.pages)
            assert not {"/JavaScript", "/EmbeddedFiles"} & pdf.root_object.get("/Names", {}).keys()
            assert not any("/Annots" in page and links_of(page) for page in pdf.pages)
            account = bill["accountId"]
            link = {"name": LINE, "dtExpiry": "2027-06-01T00:00:00Z"}
            token = http.post(f"/accounts/{account}/customerlinks", json=link).json()["token"]
            for page in ("", f"?month={MONTH}", f"/bills/{bill['id']}"):
                answers[f"{account}{page}"] = anybody.get(f"/customer/{token}{page}")
    shown, wrong = checked(answers)
    assert wrong == {}
    assert shown > 10


def links_of(page):
    """What a page of a PDF leads to outside of it."""
    return [each for each in page["/Annots"] if "/A" in each.get_object()]


@pytest.mark.long
def test_nor_do_letters(found, mailbox):
    with found.server.http() as http:
        for bill in http.get("/bills").json()["data"]:
            http.post(f"/bills/{bill['id']}/send", json={"to": "a@example.com"}).raise_for_status()
            for attack in ATTACKS:
                answer = http.post(f"/bills/{bill['id']}/send", json={"to": attack, "again": True})
                assert answer.status_code in {400, 409}, attack
    executor = Executor(found.server.settings)
    list(run_round(BILL_LETTERS, executor, found.server.organization, lambda: False))

    assert mailbox.letters != []
    assert [fault for each in mailbox.letters for fault in faults_of_letter(each)] == []


@pytest.mark.long
def test_nothing_runs_in_a_browser(found, visited):
    if which("chromium") is None:
        pytest.skip("needs chromium in PATH")
    world, said = found.world, []
    with sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=which("chromium"), args=["--no-sandbox", "--no-proxy-server"]
        )
        context = started.new_context(base_url=world.url)
        context.set_default_timeout(180_000)
        context.add_init_script("window.attack = () => { window.attacked = true; }")
        tab = context.new_page()
        # What the policy of a page refuses was markup of ours, or of somebody else.
        tab.on("console", lambda each: said.append(f"{tab.url}: {each.text}"))
        tab.goto(CONSOLE)
        tab.get_by_label("E-mail address").fill(ADA)
        tab.get_by_label("Password").fill(PASSWORD)
        tab.keyboard.press("Enter")
        tab.wait_for_url(f"**{CONSOLE}/months/**")
        pages = [
            address
            for address, answer in visited.items()
            if answer.headers.get("content-type", "").startswith("text/html")
            and answer.status_code == httpx.codes.OK
            and "attack()" in answer.text
        ]
        for address in pages[:IN_BROWSER]:
            tab.goto(address)
            assert tab.evaluate("window.attacked") is None, address
        started.close()
    assert len(pages) > IN_BROWSER
    assert said == []
