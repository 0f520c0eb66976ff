"""A home in which every text that somebody may write is an attack, with bills of September."""

import csv
import io
import itertools
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from meterlake.api import openapi
from meterlake.model.catalog.catalog import Meter
from meterlake.model.customers.accounts import Account
from meterlake.model.resources import RESOURCES
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from tests.attack_text import ATTACKS, LINE, SCRIPT_URL, with_text
from tests.bills import price_egress, subscribe
from tests.console_world import ConsoleWorld
from tests.e2e.api.bodies import ROWS
from tests.e2e.api.members import Document
from tests.e2e.api.methods import api_of
from tests.e2e.api.test_resources import PLAIN
from tests.e2e.api.world import World
from tests.homes import ACCOUNTS, EGRESS, HEADER, Home, configure
from tests.organizations import Clock
from tests.served import Served, served

SEPTEMBER = Month(2026, 9)
# Of the organization itself: who changes them changes what all others do.
_LEFT = {"features"}
# Entities of a kind: those that say the least and the most, and what others refer to.
_EACH = 4
Steps = tuple[str | int, ...]


class Attacked(NamedTuple):
    """What took an attack: the number of texts by kind of entity."""

    world: ConsoleWorld
    server: Served
    taken: dict[str, int]


@contextmanager
def attacked(folder: Path, **settings: Any) -> Iterator[Attacked]:
    """Serve an organization with an entity of every kind, whose texts are attacks."""
    with served(folder / "home", **settings) as server, ExitStack() as opened:
        home = Home(server.stores, server.org_id, Clock())
        configure(server.organization, meters=[EGRESS], accounts=ACCOUNTS)
        price_egress(home)
        subscribe(home, "acme", "bolt")
        with server.http() as http:
            [meter] = http.get("/meters").json()["data"]
            make_all(server, http)
            taken = attack_all(server, http)
            use(home, meter["id"])
            bill(server.organization, SEPTEMBER)
            act(http)
        world = ConsoleWorld(home, server.url, opened, {})
        yield Attacked(world, server, taken)


def make_all(server: Served, http: httpx.Client) -> None:
    """Make entities of every kind: one that says the least, and one that says all."""
    with server.sdk(_strict_response_validation=False) as sdk:
        World(sdk).allow_custom_fields()
        for most in (False, True):
            world = World(sdk, 1000 + 1000 * most)
            for row in ROWS:
                more = row.more(world) if most else {}
                body = {**row.least(world), **more}
                api_of(sdk, row.api).create(**row.path(world), **body)
    for path, (body, _) in PLAIN.items():
        http.post(f"/{path}", json=body).raise_for_status()


def attack_all(server: Served, http: httpx.Client) -> dict[str, int]:
    """Write attacks into the texts of entities of every kind; how many took one, by kind."""
    document = Document(json.loads(openapi.encode_document()))
    bodies = {
        each.path.removeprefix("/organizations/{orgId}"): each.body
        for each in document.operations
        if each.method == "PUT"
    }
    taken = {}
    for resource in RESOURCES:
        if "update" not in resource.verbs or resource.name in _LEFT:
            continue
        path = f"/{resource.path}{'' if resource.singleton else '/{id}'}"
        places = [steps for steps, each in document.members(bodies[path]).items() if each.is_text]
        with server.organization.reading() as reader:
            found = [(each.id, each.entity.to_wire()) for each in reader.all(resource.entity)]
        taken[resource.name] = 0
        for number, (id_, fields) in enumerate(found[:_EACH]):
            address = f"/{resource.path.format(**fields)}"
            at = address if resource.singleton else f"{address}/{id_}"
            taken[resource.name] += attack(http, at, places, number)
    return taken


def attack(http: httpx.Client, address: str, places: list[Steps], number: int) -> int:
    """Write the worst attack that each text of an entity takes; how many took one."""
    body = http.get(address).json()
    if body.get("managedPolicy"):
        return 0  # Nobody can change it.
    custom = [("customFields", name) for name in (*body.get("customFields", {}), LINE)]
    taken = 0
    for place in dict.fromkeys([*places, *custom]):
        if re.search(r"Ids?$|Date$|^dt[A-Z]|Epoch$", str(next(filter(_is_name, place[::-1]), ""))):
            continue
        for text in (SCRIPT_URL, *ATTACKS) if number % 2 else ATTACKS:
            unique = f"{text}{number}" if place[-1] in {"code", "name"} else text
            answer = http.put(address, json=with_text(body, place, unique))
            assert answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR, (address, place, text)
            if answer.is_success:
                body, taken = answer.json(), taken + 1
                break
    return taken


def _is_name(step: str | int) -> bool:
    return isinstance(step, str)


def use(home: Home, meter_id: str) -> None:
    """Have customers use something in places that attack, and send rows that are refused."""
    with home.organization.reading() as reader:
        codes = [each.entity.code for each in reader.all(Account)]
        meter = reader.get(Meter, meter_id).entity.code
    text = io.StringIO(HEADER)
    text.seek(0, io.SEEK_END)
    lines = csv.writer(text)
    for number, code in enumerate(codes):
        for place in ATTACKS:
            lines.writerow([meter, code, f"{number}{place}", "2026-09-03T10:00:00Z", "1.5", place])
    for each in ATTACKS:
        lines.writerow([each, each, f"bad{each}", each, each, each])
    home.ingest(LINE.replace("/", ":"), text.getvalue())


def act(http: httpx.Client) -> None:
    """Do what people do to bills and accounts, with reasons and names that attack."""
    day = "2026-09-29T22:00:00Z"
    product = http.get("/products").json()["data"][0]["id"]
    for bill_ in http.get("/bills").json()["data"]:
        at = f"/bills/{bill_['id']}"
        for kind, line in itertools.product(("credit", "debit"), bill_["lineItems"][:1]):
            memo = {
                "productId": line.get("productId", product),
                "accountingProductId": product,
                "description": LINE,
                "amount": 1,
                "servicePeriodStartDate": day,
                "servicePeriodEndDate": "2026-09-30T22:00:00Z",
                "referencedBillId": bill_["id"],
                "referencedLineItemId": line["id"],
            }
            answer = http.post(f"{at}/{kind}lineitems", json=memo)
            assert answer.is_success, answer.text
        http.put(f"{at}/status", json={"status": "APPROVED"}).raise_for_status()
    for account in http.get("/accounts").json()["data"]:
        link = {"name": LINE, "dtExpiry": "2027-06-01T00:00:00Z"}
        answer = http.post(f"/accounts/{account['id']}/customerlinks", json=link)
        assert answer.is_success, answer.text
    for balance in http.get("/balances").json()["data"]:
        body = {"amount": 1, "description": LINE}
        http.post(f"/balances/{balance['id']}/transactions", json=body)
    person = {"firstName": LINE, "lastName": LINE, "email": "eve@example.com"}
    http.post("/invitations", json=person)
    reason = {"mode": "re-aggregate", "reason": LINE, "month": str(SEPTEMBER)}
    http.post("/backfills", json=reason)
