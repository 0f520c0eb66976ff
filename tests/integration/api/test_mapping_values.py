"""What entities can be mapped to is asked of the other system, with its credentials."""

import pytest

from tests.doubles.stripe import KEY, running_stripe
from tests.served import served

VALUES = "/externalmappingconfiguration/values"
NOBODY = "00000000-0000-4000-8000-000000000000"
STRIPE = {"entityType": "Bill", "destination": "STRIPE_TEST"}
CREDENTIALS = {"type": "STRIPE_SIGNED_REQUEST", "apiKey": KEY}


@pytest.fixture(scope="module")
def stripe():
    with running_stripe() as found:
        yield found


@pytest.fixture(scope="module")
def client(tmp_path_factory, stripe):
    home = tmp_path_factory.mktemp("values") / "home"
    with served(home, stripe_url=stripe.url) as running, running.http() as opened:
        yield opened


@pytest.fixture
def config(client):
    made = client.post("/integrationconfigs", json=STRIPE | {"credentials": CREDENTIALS}).json()
    yield made
    client.delete(f"/integrationconfigs/{made['id']}")


def values(client, path, code=200, **query):
    answer = client.get(f"{VALUES}/{path}", params=query)
    assert answer.status_code == code, answer.text
    return answer.json()


def test_without_credentials_there_is_nothing(client):
    assert values(client, "STRIPE_TEST/Account") == []


@pytest.mark.parametrize(
    ("path", "query", "code", "said"),
    [
        (f"STRIPE_TEST/Account/{NOBODY}", {}, 404, "credentials of STRIPE_TEST"),
        ("STRIPE_TEST/Account", {"externalTable": "Charge"}, 400, "externalTable: 'Charge'"),
        ("STRIPE_TEST/Counter", {}, 400, "Customer or Product"),
    ],
)
@pytest.mark.usefixtures("config")
def test_what_stripe_does_not_have_is_refused(client, path, query, code, said):
    assert said in values(client, path, code, **query)["message"]


def test_what_stripe_refuses_is_said(client):
    wrong = CREDENTIALS | {"apiKey": "sk_test_of_nobody"}
    made = client.post("/integrationconfigs", json=STRIPE | {"credentials": wrong}).json()
    answer = values(client, "STRIPE_TEST/Account", 409)
    client.delete(f"/integrationconfigs/{made['id']}")

    assert "Invalid API Key" in answer["message"]
    assert "sk_test_of_nobody" not in answer["message"]


@pytest.mark.sees(
    "GetExternalMappingOptionsForDestination",
    "GetExternalMappingOptionsForDestinationForCredentialsId",
)
def test_customers_and_products_are_listed_page_by_page(client, stripe, config):
    stripe.customers |= {f"cus_{number:04}" for number in range(250)}
    stripe.products["prod_1"] = "Egress"
    before = stripe.pages
    customers = values(client, "stripe_test/Account")
    assert {each["externalId"] for each in customers} == stripe.customers
    assert len(customers) == len(stripe.customers)
    assert stripe.pages - before == 3

    own = config["integrationCredentialsId"]
    products = values(client, f"STRIPE_TEST/Account/{own}", externalTable="product")
    assert products == [{"externalId": "prod_1", "externalName": "Egress"}]
    assert values(client, "STRIPE_TEST/Product") == products


@pytest.mark.usefixtures("config")
def test_no_more_than_a_thousand_are_shown(client, stripe):
    before = set(stripe.customers)
    stripe.customers |= {f"cus_many_{number:04}" for number in range(1_200)}
    found = values(client, "STRIPE_TEST/Account")
    stripe.customers = before

    assert len(found) == 1_000


def test_what_there_is_here_is_listed(client):
    product = client.post("/products", json={"name": "Egress", "code": "egress"}).json()

    found = values(client, "M3TER/Product")
    assert found == [{"externalId": product["id"], "externalName": "Egress"}]
    assert values(client, "m3ter/product") == found
    assert values(client, "M3TER/Bill") == []
