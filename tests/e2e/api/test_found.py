"""What once got around a rule: by an id in capitals, by time travel, by a process that was killed."""

import os
import signal
import subprocess
import sys
import time
from datetime import date
from decimal import Decimal

import httpx
import pytest

from meterlake.stores.processes import free_port
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.stored_bills import BillContent, BillKey

ALL = {"effect": "allow", "action": ["all"], "resource": ["*:*/*"]}
ACCOUNT = {"name": "A", "emailAddress": "a@example.com"}


def made(http, path, **body):
    answer = http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def robot(server, http, *statements):
    """The client of a new service user that has these statements."""
    user = made(http, "/serviceusers", name="Robot")
    key = made(http, f"/serviceusers/{user['id']}/accesskeys")
    policy = made(http, "/permissionpolicies", name="Robot", permissionPolicy=list(statements))
    made(http, f"/permissionpolicies/{policy['id']}/addtoserviceuser", principalId=user["id"])
    answer = httpx.post(
        f"{server.url}/oauth/token",
        json={"grant_type": "client_credentials"},
        auth=(key["id"], key["apiSecret"]),
    )
    return server.http(answer.json()["access_token"])


@pytest.mark.parametrize("path", ["/accounts/{}", "/accounts/{}/children"])
def test_an_id_in_capitals_gets_around_no_denial_of_a_group(server, http, path):
    account = made(http, "/accounts", code=f"capitals{len(path)}", **ACCOUNT)
    group = made(http, "/resourcegroups/account", name=f"Secret {len(path)}")
    place = f"/resourcegroups/account/{group['id']}/addresource"
    made(http, place, targetId=account["id"], targetType="ITEM")
    deny = {**ALL, "effect": "deny", "resource": [f"config:account/group/{group['id']}"]}

    with robot(server, http, ALL, deny) as other:
        assert other.get(path.format(account["id"])).status_code == 403
        assert other.get(path.format(account["id"].upper())).status_code == 403


def test_the_past_of_an_entity_is_below_what_it_belongs_to(http):
    table, other = (
        made(http, "/lookuptables", name=code, code=code) for code in ("past", "elsewhere")
    )
    fields = [{"name": "k", "type": "STRING"}, {"name": "v", "type": "NUMBER"}]
    body = {"name": "First", "fields": fields, "keys": ["k"]}
    revision = made(http, f"/lookuptables/{table['id']}/revisions", **body)
    query = {"asOf": "2100-01-01T00:00:00Z"}

    below = f"revisions/{revision['id']}"

    assert http.get(f"/lookuptables/{table['id']}/{below}", params=query).status_code == 200
    assert http.get(f"/lookuptables/{other['id']}/{below}", params=query).status_code == 404


def test_an_account_with_bills_is_not_deleted(server, http):
    account = made(http, "/accounts", code="billed", **ACCOUNT)
    content = BillContent(
        key=BillKey(account["id"], date(2026, 11, 1), "MONTHLY", 1),
        period="2026-10",
        currency="USD",
        total=Decimal(1),
        body={},
        pins={},
        lines=(),
    )
    with server.organization.transaction("test") as transaction:
        bills.put(transaction, content)

    answer = http.delete(f"/accounts/{account['id']}")

    assert answer.status_code == 409
    assert "still referenced by bill" in answer.json()["message"]
    assert http.get(f"/accounts/{account['id']}").json() == account


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="processes are killed by a signal")
def test_workers_end_with_a_supervisor_that_was_killed(server):
    port = free_port()
    environment = {**os.environ, "METERLAKE_HOME": str(server.settings.home)}
    command = [sys.executable, "-m", "meterlake.api", "--port", str(port), "--workers", "2"]
    with subprocess.Popen(command, env=environment) as supervisor:
        wait_until(lambda: answers(port), "the server does not answer")
        supervisor.send_signal(signal.SIGKILL)

    wait_until(lambda: not answers(port), "the workers of a dead supervisor go on")


def answers(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=2).is_success
    except httpx.HTTPError:
        return False


def wait_until(condition, otherwise):
    give_up = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < give_up, otherwise
        time.sleep(0.1)
