"""Every resource through the official SDK: create, retrieve, list, update, delete, and what is refused."""

import asyncio
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import httpx
import m3ter
import pytest

from tests.e2e.api.asking import differing, expected, listed, refusal, shown, takes
from tests.e2e.api.bodies import BY_API, ROWS
from tests.e2e.api.methods import api_of, standard_apis
from tests.e2e.api.row import Row
from tests.effects import of_lives
from tests.served import ANSWERED


@pytest.fixture(scope="module", autouse=True)
def _custom_fields(world):
    world.allow_custom_fields()


@dataclass(frozen=True)
class Life:
    """One entity of a resource, and what was sent to make it."""

    row: Row
    api: Any
    path: dict[str, Any]
    body: dict[str, Any]
    least: dict[str, Any]

    def created(self):
        made = self.api.create(**self.path, **self.body)
        assert UUID(made.id).version == 4
        assert made.version == 1
        found = shown(made)
        assert differing(expected(self.row, self.body), found) == []
        assert found["created_by"] == found["last_modified_by"]
        assert found["created_by"].startswith("SERVICE_USER_")
        assert found["dt_created"] == found["dt_last_modified"]
        assert found["dt_created"].endswith("Z")
        return made

    def read(self, made):
        assert shown(self.api.retrieve(made.id, **self.path)) == shown(made)

    def updated(self, made):
        changed = {**self.body, **self.row.change}
        after = self.api.update(made.id, **self.path, **changed, version=1)
        assert (after.id, after.version) == (made.id, 2)
        first, second = shown(made), shown(after)
        assert differing(expected(self.row, changed), second) == []
        assert second["dt_created"] == first["dt_created"]
        assert second["dt_last_modified"] > first["dt_last_modified"]
        return after

    def refused_updates(self, id_):
        stale = refusal(
            m3ter.ConflictError, self.api.update, id_, **self.path, **self.body, version=1
        )
        assert stale.response.headers["x-should-retry"] == "false"
        assert "2" in stale.body["message"]
        refusal(m3ter.BadRequestError, self.api.update, id_, **self.path, **self.body)

    def replaced(self, id_):
        """What an update leaves out is gone."""
        kept = {name: value for name, value in self.body.items() if name in self.row.kept}
        document = {**kept, **self.least}
        replaced = self.api.update(id_, **self.path, **document, version=2)
        found = shown(replaced)
        left = [
            name
            for name in set(self.body) - set(document) - self.row.hidden
            if differing(self.body[name], found.get(name)) == []
        ]
        assert set(left) <= _DEFAULTS.get(self.row.api, set())
        return replaced

    def deleted(self, last):
        api, path = self.api, self.path
        assert shown(api.delete(last.id, **path)) == shown(last)
        assert last.id not in listed(api, path)
        refusal(m3ter.NotFoundError, api.retrieve, last.id, **path)
        refusal(m3ter.NotFoundError, api.update, last.id, **path, **self.body, version=3)
        refusal(m3ter.NotFoundError, api.delete, last.id, **path)


@pytest.mark.parametrize("full", [False, True], ids=["least", "most"])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_lives_from_creation_to_deletion(sdk, world, row, full):
    api, path = api_of(sdk, row.api), row.path(world)
    least = row.least(world)
    body = {**least, **(row.more(world) if full else {})}
    life = Life(row, api, path, body, least)
    ANSWERED.clear()

    made = life.created()
    life.read(made)
    _is_listed(api, path, made)
    after = life.updated(made)
    life.read(after)
    life.refused_updates(made.id)
    life.read(after)
    life.deleted(life.replaced(made.id))
    assert of_lives([row]) <= ANSWERED


# What the least body says by leaving it out, and what is told apart by other members.
_DEFAULTS = {
    "pricings": {"tiers_span_plan"},
    "commitments": {"separate_overage_usage"},
    "data_exports.destinations": {"destination_type"},
    "charges": {"contract_id"},
}


def _is_listed(api, path, made):
    assert listed(api, path, page_size=1)[0] == made.id
    if takes(api.list, "ids"):
        assert listed(api, path, ids=[made.id]) == [made.id]
        assert listed(api, path, ids=[made.id, made.id]) == [made.id]
        assert listed(api, path, ids=[str(UUID(int=1))]) == []
    code = getattr(made, "code", None)
    if takes(api.list, "codes") and code:
        assert listed(api, path, codes=[code, "nothing"]) == [made.id]
        assert listed(api, path, codes=["nothing"]) == []


def test_no_resource_of_the_sdk_is_left_out(sdk):
    assert {row.api for row in ROWS} == standard_apis(sdk)


def test_a_stale_update_is_not_tried_again(server, world):
    seen = []
    hooks = {"request": [lambda request: seen.append(request.method)]}
    with server.sdk(max_retries=5, http_client=httpx.Client(event_hooks=hooks)) as sdk:
        made = sdk.products.create(name="Once", code=world.code())
        with pytest.raises(m3ter.ConflictError):
            sdk.products.update(made.id, name="Twice", code="twice", version=9)
    assert seen.count("PUT") == 1


def test_of_two_updates_of_one_version_one_succeeds(server, world, sdk):
    made = sdk.products.create(name="Once", code=world.code())

    async def both():
        async with server.async_sdk(token=server.token()) as client:
            updates = [
                client.products.update(made.id, name=f"{n}", code=made.code, version=1)
                for n in range(8)
            ]
            return await asyncio.gather(*updates, return_exceptions=True)

    results = asyncio.run(both())
    assert sum(not isinstance(result, Exception) for result in results) == 1
    assert sum(isinstance(result, m3ter.ConflictError) for result in results) == 7
    assert sdk.products.retrieve(made.id).version == 2


ASYNC = ("products", "accounts", "pricings", "balances.charge_schedules", "resource_groups")


@pytest.mark.parametrize("name", ASYNC)
def test_lives_the_same_for_the_asynchronous_sdk(server, world, name):
    row = BY_API[name]
    path, body = row.path(world), {**row.least(world), **row.more(world)}

    async def live():
        async with server.async_sdk(token=server.token()) as sdk:
            api = api_of(sdk, row.api)
            made = await api.create(**path, **body)
            assert shown(await api.retrieve(made.id, **path)) == shown(made)
            assert made.id in [each.id async for each in api.list(**path, page_size=1)]
            after = await api.update(made.id, **path, **{**body, **row.change}, version=1)
            assert differing(expected(row, row.change), shown(after)) == []
            with pytest.raises(m3ter.ConflictError):
                await api.update(made.id, **path, **body, version=1)
            assert shown(await api.delete(made.id, **path)) == shown(after)
            with pytest.raises(m3ter.NotFoundError):
                await api.retrieve(made.id, **path)

    asyncio.run(live())


# --- Kinds of which there is one, and kinds without methods in the SDK ------------------------------

ORGANIZATION = {
    "currency": "USD",
    "day_epoch": "2022-01-01",
    "days_before_bill_due": 14,
    "month_epoch": "2022-01-01",
    "timezone": "Europe/London",
    "week_epoch": "2022-01-03",
    "year_epoch": "2022-01-01",
}


@pytest.mark.sees("GetOrganizationConfig", "UpdateOrganizationConfig")
def test_the_organizations_settings_are_replaced(sdk):
    before = sdk.organization_config.retrieve()
    after = sdk.organization_config.update(**ORGANIZATION, version=before.version)
    assert differing(ORGANIZATION, shown(after)) == []
    assert after.version == before.version + 1
    assert shown(sdk.organization_config.retrieve()) == shown(after)
    stale = refusal(
        m3ter.ConflictError, sdk.organization_config.update, **ORGANIZATION, version=before.version
    )
    assert stale.response.headers["x-should-retry"] == "false"
    refusal(m3ter.BadRequestError, sdk.organization_config.update, **ORGANIZATION)


def test_what_has_no_effect_is_told_in_a_header(http, world):
    agreed = {
        "accountId": world.account,
        "name": "Agreed",
        "startDate": "2026-01-01",
        "endDate": "2027-01-01",
    }
    told = http.post(
        "/contracts", json={**agreed, "code": world.code(), "purchaseOrderNumber": "P-1"}
    )
    assert told.status_code == 200, told.text
    assert told.headers["Warning"].startswith('299 meterlake "purchaseOrderNumber is ')
    found = http.get(f"/contracts/{told.json()['id']}")
    assert "Warning" not in found.headers
    calm = http.post("/contracts", json={**agreed, "code": world.code()})
    assert (calm.status_code, "Warning" in calm.headers) == (200, False)


@pytest.mark.sees("GetBillConfig", "UpdateBillConfig")
def test_the_bill_lock_date_is_set(sdk):
    before = sdk.bill_config.retrieve()
    after = sdk.bill_config.update(bill_lock_date="2025-01-01", version=before.version)
    assert str(after.bill_lock_date) == "2025-01-01"
    assert after.version == before.version + 1
    refusal(
        m3ter.ConflictError,
        sdk.bill_config.update,
        bill_lock_date="2025-02-01",
        version=before.version,
    )


@pytest.mark.sees("GetCustomField", "UpdateCustomFields")
def test_custom_fields_of_the_organization_are_replaced(sdk):
    before = sdk.custom_fields.retrieve()
    kept = shown(before) | {"organization": {"region": "emea", "rank": 1.5}}
    names = [name for name in kept if takes(sdk.custom_fields.update, name) and name != "version"]
    fields = {name: kept[name] for name in names}
    after = sdk.custom_fields.update(**fields, version=before.version)
    assert after.organization == {"region": "emea", "rank": 1.5}
    refusal(m3ter.ConflictError, sdk.custom_fields.update, **fields, version=before.version)


PLAIN = {
    "picklists/billgroupingkeys": ({"name": "Region", "exclusive": False}, {"name": "Area"}),
    "serviceusers": ({"name": "Robot"}, {"name": "Machine"}),
    "usage/savedqueries": (
        {"name": "Daily", "usageQuery": {"timePeriod": "TODAY"}},
        {"name": "Weekly"},
    ),
}


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            "picklists/billgroupingkeys",
            marks=pytest.mark.sees(
                "CreateBillGroupingKey",
                "GetBillGroupingKey",
                "ListBillGroupingKeys",
                "UpdateBillGroupingKey",
                "DeleteBillGroupingKey",
            ),
        ),
        pytest.param("serviceusers", marks=pytest.mark.sees("ListServiceUsers")),
        pytest.param(
            "usage/savedqueries",
            marks=pytest.mark.sees(
                "CreateUsageSavedQuery",
                "GetUsageSavedQuery",
                "ListUsageSavedQueries",
                "UpdateUsageSavedQuery",
                "DeleteUsageSavedQuery",
            ),
        ),
    ],
)
def test_lives_without_the_sdk(http, path):
    body, change = PLAIN[path]
    made = http.post(f"/{path}", json=body).json()
    assert made["version"] == 1, made
    assert differing(body, made) == []
    at = f"/{path}/{made['id']}"
    assert http.get(at).json() == made
    assert http.get(f"/{path}").json()["data"][0] == made
    after = http.put(at, json={**body, **change, "version": 1}).json()
    assert differing(change, after) == []
    stale = http.put(at, json={**body, "version": 1})
    assert (stale.status_code, stale.headers["x-should-retry"]) == (409, "false")
    assert http.delete(at).json() == after
    assert http.get(at).status_code == 404
    assert http.delete(at).status_code == 404
