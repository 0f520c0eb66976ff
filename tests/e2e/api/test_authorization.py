"""Who may call what: every operation, with every wrong way to ask."""

import base64
import json
import re
import time
from collections import Counter
from pathlib import Path

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from meterlake.api.routes import OPERATIONS
from meterlake.model.configuration.permissions import READ_ONLY
from meterlake.pipeline.access.tokens import AUDIENCE, ISSUER, Tokens
from meterlake.pipeline.home.setup import initialize
from tests.people import allow, deny

NOWHERE = "00000000-0000-4000-8000-000000000000"
_MEMBERS = {
    "type": "meter",
    "entityType": "Notification",
    "entity": "Account",
    "lookupKey": "eu",
    "billingFrequency": "MONTHLY",
    "lastDateInBillingPeriod": "2026-10-01",
}
_READS = frozenset(
    action.value for statement in READ_ONLY.permission_policy for action in statement.action
)


def path_of(operation, org_id):
    """A path of an operation; what it names is not there."""
    return re.sub(
        r"\{(\w+)\}",
        lambda match: org_id if match[1] == "orgId" else _MEMBERS.get(match[1], NOWHERE),
        operation.path,
    )


@pytest.fixture(scope="module")
def ask(server):
    """Call an operation; its status and what was said."""
    with httpx.Client(base_url=server.url) as client:

        def call(operation, token, org_id=None):
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            body = {} if operation.method in {"GET", "DELETE"} else {"json": {}}
            found = client.request(
                operation.method,
                path_of(operation, org_id or server.org_id),
                headers=headers,
                **body,
            )
            if found.status_code >= 400:
                assert found.json()["message"], operation.id
            return found.status_code

        yield call


def statuses(ask, token, operations=OPERATIONS, org_id=None):
    """The operations by what they answered."""
    return {operation.id: ask(operation, token, org_id) for operation in operations}


def others(found, *wanted):
    return {name: status for name, status in found.items() if status not in wanted}


def service_user(http, *policy_ids):
    """Id, access key and secret of a new service user with some policies."""
    user = http.post("/serviceusers", json={"name": "Robot"}).json()["id"]
    for policy in policy_ids:
        granted = http.post(
            f"/permissionpolicies/{policy}/addtoserviceuser", json={"principalId": user}
        )
        assert granted.status_code == 200, granted.text
    key = http.post(f"/serviceusers/{user}/accesskeys", json={}).json()
    return user, key["id"], key["apiSecret"]


def token_of(server, key, secret):
    found = httpx.post(
        f"{server.url}/oauth/token",
        json={"grant_type": "client_credentials"},
        auth=(key, secret),
    )
    assert found.status_code == 200, found.text
    return found.json()["access_token"]


def policy(http, name, *statements):
    body = {"name": name, "permissionPolicy": list(statements)}
    found = http.post("/permissionpolicies", json=body)
    assert found.status_code == 200, found.text
    return found.json()["id"]


def statement(effect, actions, *resources):
    return {"effect": effect, "action": actions, "resource": list(resources)}


def managed(http, name):
    found = http.get("/permissionpolicies").json()["data"]
    return next(each["id"] for each in found if each["name"] == name and each["managedPolicy"])


def signed(server, key=None, headers=None, **changes):
    """A token as the server makes them, with changes."""
    tokens = Tokens(server.stores.state, server.stores.secrets)
    kid, own = tokens._signing_key()
    claims = jwt.decode(server.token(), options={"verify_signature": False})
    return jwt.encode(
        {**claims, **changes}, key or own, "EdDSA", headers={"kid": kid, **(headers or {})}
    )


# --- Every operation --------------------------------------------------------------------------------


def test_every_operation_says_what_it_needs():
    assert [each.id for each in OPERATIONS if not each.resource] == []
    open_to_all = [each.id for each in OPERATIONS if not each.action]
    assert sorted(open_to_all) == [
        "EndMySessions",
        "GetMe",
        "ListAllowedOperations",
        "ListEntityChanges",
        "ListEntityReferences",
    ]
    twice = Counter((each.method, each.path) for each in OPERATIONS)
    assert [place for place, count in twice.items() if count > 1] == []


def test_nobody_gets_in_without_a_token(ask):
    assert others(statuses(ask, None), 401) == {}


@pytest.mark.parametrize("token", ["x", "a.b.c", "e30.e30.", "A" * 10_000])
def test_nobody_gets_in_with_something_else(ask, token):
    assert others(statuses(ask, token, OPERATIONS[::10]), 401) == {}


def test_nobody_gets_in_with_a_token_that_has_expired(server, ask):
    expired = signed(server, exp=int(time.time()) - 60)
    assert others(statuses(ask, expired), 403) == {}


@pytest.mark.parametrize("org_id", ["other", NOWHERE, "x", "..%2f", "%00"])
def test_a_token_opens_only_its_own_organization(server, ask, other, org_id):
    wanted = other.org_id if org_id == "other" else org_id
    operations = OPERATIONS if org_id == "other" else OPERATIONS[::10]
    assert others(statuses(ask, server.token(), operations, wanted), 403) == {}


def test_a_token_of_another_organization_opens_nothing_here(server, ask, other):
    token = token_of(server, other.access_key_id, other.api_secret)
    assert others(statuses(ask, token), 403) == {}


@pytest.fixture(scope="module")
def other(server):
    """Another organization of the same server."""
    return initialize(server.settings, "Other")


def test_who_has_no_policy_may_do_nothing(server, http, ask):
    _, key, secret = service_user(http)
    assert others(statuses(ask, token_of(server, key, secret)), 403) == {}


@pytest.mark.long
def test_who_may_only_read_writes_nothing(server, http, ask):
    _, key, secret = service_user(http, managed(http, "ReadOnly"))
    token = token_of(server, key, secret)
    found = statuses(ask, token)
    writes = {each.id for each in OPERATIONS if each.action and each.action not in _READS}
    assert len(writes) > 100
    assert others({name: found[name] for name in writes}, 403) == {}
    reads = {name: status for name, status in found.items() if name not in writes}
    # The Data Explorer is asked more often than its limits allow: that is no matter of permissions.
    assert others(reads, 200, 400, 404, 429, 501) == {}


@pytest.mark.sees("ListAllowedOperations")
@pytest.mark.parametrize(
    "statements",
    [
        [allow("config:retrieve")],
        [allow("all"), deny("config:delete"), deny("config:update", "config:bill")],
        [allow("config:create", "config:meter"), allow("measurements:upload")],
    ],
    ids=["reading", "denials", "little"],
)
def test_what_one_may_call_is_listed_and_nothing_else(server, http, ask, statements):
    _, key, secret = service_user(
        http,
        policy(http, f"{len(statements)} statements of {statements[0]['action']}", *statements),
    )
    token = token_of(server, key, secret)
    with server.http(token) as client:
        listed = set(client.get("users/me/operations").json()["data"])
    asked = OPERATIONS[::5]
    found = statuses(ask, token, asked)

    assert {each.id for each in asked if found[each.id] != 403} == listed & found.keys()


@pytest.mark.long
def test_an_administrator_is_refused_nowhere(server, ask):
    # Last in a row of requests without sense: nothing is there, and nothing is changed.
    operations = [each for each in OPERATIONS if each.method != "DELETE"]
    found = statuses(ask, server.token(), operations)
    assert others(found, 200, 400, 404, 409, 429, 501) == {}


# --- Tokens -----------------------------------------------------------------------------------------

RETRIEVE = next(each for each in OPERATIONS if each.id == "ListProducts")


def test_a_token_as_the_server_makes_them_is_good(server, ask):
    assert ask(RETRIEVE, signed(server)) == 200


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"iss": "another"}, 401),
        ({"aud": "another"}, 401),
        ({"nbf": 2**40}, 401),
        ({"exp": "never"}, 401),
        ({"exp": None}, 401),
        ({"org": NOWHERE}, 403),
        ({"sub": "USER_" + NOWHERE}, 401),
        ({"sub": "nobody"}, 401),
        ({"cred": NOWHERE}, 401),
    ],
)
def test_a_token_with_other_claims_is_refused(server, ask, changes, status):
    assert ask(RETRIEVE, signed(server, **changes)) == status
    assert (ISSUER, AUDIENCE) != ("another", "another")


def test_a_token_of_another_key_is_refused(server, ask):
    assert ask(RETRIEVE, signed(server, key=Ed25519PrivateKey.generate())) == 401
    assert ask(RETRIEVE, signed(server, headers={"kid": "another"})) == 401


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_a_token_of_another_algorithm_is_refused(server, ask, algorithm):
    good = server.token()
    headers = {"kid": jwt.get_unverified_header(good)["kid"]}
    claims = jwt.decode(good, options={"verify_signature": False})
    # The public key as a shared secret is the oldest of these tricks.
    public = httpx.get(f"{server.url}/.well-known/jwks.json").json()["keys"][0]["x"]
    key = None if algorithm == "none" else public
    assert ask(RETRIEVE, jwt.encode(claims, key, algorithm, headers=headers)) == 401


def test_a_token_that_was_changed_is_refused(server, ask):
    head, body, signature = server.token().split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    claims["exp"] += 1
    other = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    assert ask(RETRIEVE, f"{head}.{other}.{signature}") == 401
    assert ask(RETRIEVE, f"{head}.{body}.{signature[:-4]}AAAA") == 401
    assert ask(RETRIEVE, f"{head}.{body}.") == 401


def test_a_token_in_the_query_or_a_cookie_is_none(server):
    token = server.token()
    url = f"{server.url}/organizations/{server.org_id}/products"
    assert httpx.get(url, params={"access_token": token}).status_code == 401
    assert httpx.get(url, headers={"Cookie": f"access_token={token}"}).status_code == 401
    assert httpx.get(url, headers={"Authorization": f"Basic {token}"}).status_code == 401


@pytest.mark.parametrize("swap", ["key", "secret", "both"])
def test_wrong_credentials_get_no_token(server, swap):
    key = NOWHERE if swap in {"key", "both"} else server.key
    secret = "wrong" if swap in {"secret", "both"} else server.secret
    found = httpx.post(
        f"{server.url}/oauth/token", json={"grant_type": "client_credentials"}, auth=(key, secret)
    )
    assert found.status_code == 401
    assert found.json()["message"]


# --- Policies ---------------------------------------------------------------------------------------


@pytest.fixture
def with_policy(server, http, request):
    """A client that has one policy."""
    clients = []

    def make(*statements):
        name = f"{request.node.name[:60]} {len(clients)}"
        _, key, secret = service_user(http, policy(http, name, *statements))
        clients.append(server.http(token_of(server, key, secret)))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def test_a_policy_opens_what_it_names(with_policy):
    client = with_policy(statement("allow", ["config:retrieve"], "config:product/*"))
    assert client.get("/products").status_code == 200
    assert client.get("/accounts").status_code == 403
    assert client.post("/products", json={"name": "a", "code": "b"}).status_code == 403


def test_a_denial_is_stronger(with_policy):
    client = with_policy(
        statement("allow", ["all"], "*"),
        statement("deny", ["config:delete", "config:update"], "config:account/*"),
    )
    assert client.get("/accounts").status_code == 200
    assert client.delete(f"/accounts/{NOWHERE}").status_code == 403
    assert client.delete(f"/products/{NOWHERE}").status_code == 404


def test_a_policy_opens_one_item(with_policy, world):
    mine, yours = world.new_product(), world.new_product()
    client = with_policy(statement("allow", ["config:retrieve"], f"config:product/item/{mine}"))
    assert client.get(f"/products/{mine}").status_code == 200
    assert client.get(f"/products/{mine.upper()}").status_code == 200
    assert client.get(f"/products/{yours}").status_code == 403
    assert client.get("/products").status_code == 403


def test_a_denied_item_stays_closed_however_it_is_written(server, with_policy, world):
    mine = world.new_product()
    client = with_policy(
        statement("allow", ["config:retrieve"], "config:product/*"),
        statement("deny", ["config:retrieve"], f"config:product/item/{mine}"),
    )
    assert client.get(f"/products/{mine}").status_code == 403
    assert client.get(f"/products/{mine.upper()}").status_code == 403
    doubled = f"{server.url}//organizations///{server.org_id}//products//{mine}//"
    assert client.get(doubled).status_code == 403
    assert client.get(f"/products/%{ord(mine[0]):x}{mine[1:]}").status_code == 403


def test_a_policy_opens_the_items_of_a_group(with_policy, http, world):
    inside, outside = world.new_meter(), world.new_meter()
    group = http.post("/resourcegroups/meter", json={"name": "Inside"}).json()["id"]
    put = {"targetId": inside, "targetType": "ITEM"}
    added = http.post(f"/resourcegroups/meter/{group}/addresource", json=put)
    assert added.status_code == 200, added.text
    client = with_policy(statement("allow", ["config:retrieve"], f"config:meter/group/{group}"))
    assert client.get(f"/meters/{inside}").status_code == 200
    assert client.get(f"/meters/{outside}").status_code == 403


def test_what_is_taken_away_is_gone_within_seconds(server, http):
    given = policy(http, "Taken", statement("allow", ["all"], "*"))
    user, key, secret = service_user(http, given)
    with server.http(token_of(server, key, secret)) as client:
        assert client.get("/products").status_code == 200
        inactive = http.put(f"/serviceusers/{user}/accesskeys/{key}", json={"status": "INACTIVE"})
        assert inactive.status_code == 200
        time.sleep(3.1)
        assert client.get("/products").status_code == 401


def test_updating_policies_makes_an_administrator_and_the_page_says_so(server, http):
    given = policy(
        http, "Policies", statement("allow", ["config:update"], "config:permissionpolicy/*")
    )
    user, key, secret = service_user(http, given)
    with server.http(token_of(server, key, secret)) as client:
        assert client.get("/accounts").status_code == 403
        place = f"/permissionpolicies/{managed(http, 'Administrator')}/addtoserviceuser"
        assert client.post(place, json={"principalId": user}).status_code == 200
    with server.http(token_of(server, key, secret)) as client:
        time.sleep(3.1)
        assert client.get("/accounts").status_code == 200
    page = (Path(__file__).parents[3] / "docs/api.md").read_text()
    assert "| `config:update` | `permissionpolicy` |" in page


def test_an_access_key_of_an_administrator_makes_one(server, http):
    administrator, _, _ = service_user(http, managed(http, "Administrator"))
    given = policy(http, "Keys", statement("allow", ["config:create"], "config:accesskey/*"))
    _, key, secret = service_user(http, given)
    with server.http(token_of(server, key, secret)) as client:
        made = client.post(f"/serviceusers/{administrator}/accesskeys", json={}).json()
    with server.http(token_of(server, made["id"], made["apiSecret"])) as client:
        assert client.get("/accounts").status_code == 200
    assert (
        "| `config:create` | `accesskey` |"
        in (Path(__file__).parents[3] / "docs/api.md").read_text()
    )


def test_a_managed_policy_stays(http):
    for name in ("Administrator", "ReadOnly"):
        id_ = managed(http, name)
        assert http.delete(f"/permissionpolicies/{id_}").status_code == 403
        body = {
            "name": name,
            "version": 1,
            "permissionPolicy": [statement("allow", ["all"], "*")],
        }
        assert http.put(f"/permissionpolicies/{id_}", json=body).status_code == 403


def test_a_secret_is_shown_once(http):
    user, key, secret = service_user(http)
    for path in ("", f"/{key}"):
        found = http.get(f"/serviceusers/{user}/accesskeys{path}")
        assert found.status_code == 200
        assert secret not in found.text
        assert "apiSecret" not in found.text
