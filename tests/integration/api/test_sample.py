"""The sample over HTTP: for an organization that has nothing of its own, and for who may do all."""

import pytest

import sample_data
from tests.e2e.api.test_authorization import service_user, token_of
from tests.people import allow, deny
from tests.served import served


@pytest.fixture
def server(tmp_path):
    with served(tmp_path / "home") as found:
        yield found


@pytest.fixture
def http(server):
    with server.http() as client:
        yield client


@pytest.mark.sees("LoadSample")
def test_the_sample_brings_its_catalog_and_drops_its_files_once(server, http):
    first = http.post("/sample").json()
    inbox = server.settings.home / "drop" / server.stores.find_organization(server.org_id).code
    files = sorted(each.name for each in (inbox / "inbox").iterdir())
    again = http.post("/sample").json()

    assert first["month"] == "2026-10"
    assert files == sorted(each.name for each in sample_data.MEASUREMENTS.iterdir())
    assert first == again
    codes = {each.code for each in server.sdk().meters.list()}
    assert codes == {"llm_tokens", "api_calls", "storage", "seats"}
    assert len(list(server.sdk().accounts.list())) == 40


def test_an_organization_with_a_meter_of_its_own_keeps_to_itself(server, http):
    field = {"category": "MEASURE", "code": "units", "name": "Units", "unit": "1"}
    meter = {"code": "mine", "name": "Mine", "dataFields": [field], "derivedFields": []}
    assert http.post("/meters", json=meter).is_success
    refused = http.post("/sample")

    assert refused.status_code == 409
    assert "such as mine" in refused.json()["message"]
    assert list(server.sdk().accounts.list()) == []


def test_a_product_of_the_same_code_is_not_overwritten(server, http):
    server.sdk().products.create(code="llm", name="Ours", custom_fields={})
    refused = http.post("/sample")

    assert refused.status_code == 409
    assert "such as llm" in refused.json()["message"]
    assert [each.name for each in server.sdk().products.list()] == ["Ours"]


@pytest.mark.parametrize("missing", ["account", "pricing"])
def test_who_may_not_create_one_part_gets_nothing_of_it(server, http, missing):
    statements = [allow("config:create"), allow("config:update"), deny("all", f"config:{missing}")]
    policy = {"name": "Builder", "permissionPolicy": statements}
    made = http.post("/permissionpolicies", json=policy).json()
    _, key, secret = service_user(http, made["id"])
    with server.http(token_of(server, key, secret)) as client:
        refused = client.post("/sample")

    assert refused.status_code == 403
    assert missing in refused.json()["message"]
    assert list(server.sdk().meters.list()) == []
