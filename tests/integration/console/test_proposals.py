"""Proposed changes in the console: from a raised price to a reviewer, and to prices that hold."""

import re
from urllib.parse import quote

import pytest
from argon2 import PasswordHasher

from meterlake.pipeline.access import login
from tests.console_world import CONSOLE, a_console
from tests.homes import configure
from tests.integration.console.test_catalogue import shown
from tests.people import allow

PROPOSALS = f"{CONSOLE}/catalogue/proposals"
PRICINGS = f"{CONSOLE}/catalogue/pricings"
ATTACK = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, a_console(tmp_path_factory.mktemp("c")) as found:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        found.join("ada@example.com", allow())
        found.join("bob@example.com", allow())
        found.join("reader@example.com", allow("config:retrieve"))
        yield found


@pytest.fixture
def ada(world):
    return world.browser("ada@example.com")


@pytest.fixture
def bob(world):
    return world.browser("bob@example.com")


def propose(browser, name, start="2030-01-01", **more):
    """Look at raised prices, and propose them; the address of the proposal."""
    browser.go(f"{CONSOLE}/catalogue/raise-prices?plans=basic&by=2&from={start}")
    asked = {"plans": "basic", "by": "2", "from": start}
    browser.send({"action": "propose", "name": name, "reason": "Energy", **asked, **more})
    return browser.page.url.path


def test_raised_prices_are_proposed_reviewed_and_applied(ada, bob):
    place = propose(ada, "Prices of 2030")
    assert place.startswith(PROPOSALS)
    assert "You proposed the change. Nothing has changed yet" in ada.text
    assert re.search(r"<del><data[^>]*>1</data></del> <ins><data[^>]*>2</data>", ada.page.text)
    assert not ada.offers("apply")

    bob.go(CONSOLE)
    assert "proposed change" in bob.text
    bob.go(f"{place}?effect=yes")
    assert "With the change" in bob.text
    bob.send({"action": "approve", "comment": "As agreed"})
    assert "You approved the proposal" in bob.text
    bob.send({"action": "apply"})
    assert "all of its changes are made" in bob.text
    assert "Approved by Ada Lovelace: As agreed" in bob.text
    assert "As agreed" in bob.text
    assert not any(map(bob.offers, ("approve", "reject", "withdraw", "apply")))
    bob.go(f"{PROPOSALS}?status=APPLIED")
    assert "Prices of 2030" in bob.text
    bob.go(PRICINGS)
    for price in re.findall(rf'href="({PRICINGS}/[0-9a-f-]{{36}})"', bob.page.text)[:2]:
        bob.go(price)
        assert f'By the proposal <a href="{place}">Prices of 2030</a>' in bob.page.text
        assert "of Ada Lovelace, applied" in bob.text
    bob.go(f"{CONSOLE}/access/log?kinds=changeProposals")
    assert "Prices of 2030" in bob.text


def test_a_reviewer_rejects_with_a_reason_and_an_author_withdraws(ada, bob):
    place = propose(ada, "Too much", "2031-01-01")
    bob.go(place)
    assert not bob.offers("withdraw")
    bob.send({"action": "reject", "comment": "Guaranteed until 2032"})
    assert "You rejected the proposal" in bob.text
    assert "Guaranteed until 2032" in bob.text
    ada.go(place)
    ada.press("again")
    assert "You proposed the same changes again" in ada.text
    assert str(ada.page.url.path) != place
    assert not ada.offers("again")
    ada.send({"action": "withdraw", "comment": ""})
    place = propose(ada, "Once more", "2031-01-01")
    ada.send({"action": "withdraw", "comment": ""})
    assert "You withdrew the proposal" in ada.text


def test_another_price_is_tried_on_all_customers_and_proposed(ada):
    ada.go(PRICINGS)
    [one, *_] = re.findall(rf'href="({PRICINGS}/[0-9a-f-]{{36}})"', ada.page.text)
    ada.go(one)
    assert f"{one}/another" in ada.page.text
    ada.go(f"{one}/another")
    bands = {"lowerLimit": ["0"], "unitPrice": ["7"], "fixedPrice": [""]}
    ada.send({"action": "try", "start": "2035-05-01", **bands})
    assert "What it would do to bills" in ada.text
    sent = {"action": "propose", "start": "2035-05-01", **bands}
    ada.send({**sent, "name": ATTACK, "reason": ATTACK})

    assert "You proposed the change" in ada.text
    assert ATTACK not in ada.page.text
    assert re.search(r"<ins><data[^>]*>7</data>", ada.page.text)
    ada.send({"action": "withdraw", "comment": ATTACK})
    assert ATTACK not in ada.page.text


def test_the_form_of_a_price_shows_its_effect_before_it_is_saved(ada):
    ada.go(PRICINGS)
    [one, *_] = re.findall(rf'href="({PRICINGS}/[0-9a-f-]{{36}})"', ada.page.text)
    ada.go(f"{one}/edit")
    assert "What it would do to bills" in ada.text
    assert "With the new price" not in ada.text
    ada.send({**shown(ada), "form.try": "1", "pricingBands.0.unitPrice": "9"})
    assert ada.page.status_code == 200
    assert 'name="pricingBands.0.unitPrice"' in ada.page.text
    assert "With the new price" in ada.text or "There are no bills" in ada.text
    ada.go(f"{PRICINGS}/new")
    assert "What it would do to bills" not in ada.text


def test_who_may_only_look_is_offered_nothing(world, ada):
    place = propose(ada, "For a reader", "2032-01-01")
    reader = world.browser("reader@example.com")
    reader.go(place)
    assert "For a reader" in reader.text
    assert not any(map(reader.offers, ("approve", "reject", "withdraw", "apply")))
    reader.go(f"{CONSOLE}/catalogue/raise-prices?plans=basic&by=2&from=2032-01-01")
    assert not reader.offers("propose")
    ada.go(place)
    ada.send({"action": "withdraw", "comment": ""})


def test_new_prices_are_pasted_from_a_spreadsheet(ada):
    lines = quote("basic\tsent\t0\t1.25\nbasic; sent; 100; 0.75")
    ada.go(f"{CONSOLE}/catalogue/raise-prices?plans=basic&from=2033-01-01&prices={lines}")
    for new in ("1.25", "0.75"):
        assert re.search(rf"<ins><data[^>]*>{re.escape(new)}</data>", ada.page.text)
    assert ada.offers("propose")
    ada.go(f"{CONSOLE}/catalogue/raise-prices?plans=basic&from=2033-01-01&prices=basic")
    assert "write a plan, an aggregation" in ada.text


def test_two_persons_change_prices_where_the_organization_wants_that(world, ada):
    configure(world.home.organization, organizationConfig={"twoPersonApproval": True})
    asked = f"{CONSOLE}/catalogue/raise-prices?plans=basic&by=2&from=2040-01-01"
    ada.go(asked)
    assert "your organization wants two persons: propose the new prices" in ada.text
    assert "Change 1 price" not in ada.text
    assert ada.offers("propose")
    review = {"plans": "basic", "by": "2", "from": "2040-01-01", "review": "037e39dd6acf7524"}
    ada.send({"action": "", **review})
    assert "You changed" not in ada.text
    ada.go(PRICINGS)
    [one, *_] = re.findall(rf'href="({PRICINGS}/[0-9a-f-]{{36}})"', ada.page.text)
    ada.go(f"{one}/another")
    bands = {"lowerLimit": ["0"], "unitPrice": ["7"], "fixedPrice": [""]}
    ada.send({"action": "try", "start": "2041-05-01", **bands})
    assert not ada.offers("save")
    assert ada.offers("propose")
    ada.go(f"{one}/edit")
    ada.send({**shown(ada), "pricingBands.0.unitPrice": "9"})
    assert ada.page.status_code == 403
    assert "nobody changes its prices alone; make a change proposal" in ada.text
    configure(world.home.organization, organizationConfig={"twoPersonApproval": False})
