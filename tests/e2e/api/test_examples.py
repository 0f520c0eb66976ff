"""The examples of the served document are requests that the server takes, in the order of references."""

import json

import httpx
import pytest

from meterlake.model.configuration.examples import EXAMPLES
from meterlake.model.resources import BY_NAME, CONFIG, in_order

ORGANIZATION = "/organizations/{orgId}"
# Made over the API by what they belong to, or never by hand.
CREATED = [each for each in in_order() if "create" in each.verbs]
SINGLETONS = [each for each in in_order() if each.singleton and each.area == CONFIG]


class Reader:
    """Does what a reader of the document does: copies an example, puts own ids in."""

    def __init__(self, http, document):
        self.http, self.document = http, document
        self.ids = {}

    def operation(self, method, path):
        return self.document["paths"][path][method]

    def own(self, value):
        text = json.dumps(value)
        for theirs, ours in self.ids.items():
            text = text.replace(theirs, ours)
        return json.loads(text)

    def body(self, method, path):
        media = self.operation(method, path)["requestBody"]["content"]["application/json"]
        return self.own(media["example"])

    def answer(self, method, path):
        media = self.operation(method, path)["responses"]["200"]["content"]["application/json"]
        return media["example"]

    def send(self, method, path, **members):
        url = path.removeprefix(ORGANIZATION).format(**members)
        found = self.http.request(method, url, json=self.body(method, path))
        assert found.status_code == httpx.codes.OK, (method, path, found.text)
        return found.json()

    def members(self, resource):
        shown = self.own(self.answer("post", f"{ORGANIZATION}/{resource.path}"))
        return {name: shown[name] for name in resource.path_members}


@pytest.fixture(scope="module")
def reader(http, server):
    document = httpx.get(f"{server.url}/openapi.json").json()
    made = Reader(http, document)
    for resource in SINGLETONS:
        if resource.name == "features":
            continue  # Enabled already.
        path = f"{ORGANIZATION}/{resource.path}"
        if resource.name == "organizationConfig":
            made.send("post", f"{ORGANIZATION}/picklists/currency")
        version = http.get(f"/{resource.path}").json()["version"]
        found = http.put(f"/{resource.path}", json={**made.body("put", path), "version": version})
        assert found.status_code == httpx.codes.OK, found.text
    for resource in CREATED:
        if resource.name == "currencies":
            continue
        path = f"{ORGANIZATION}/{resource.path}"
        example = made.answer("post", path)
        created = made.send("post", path, **made.members(resource))
        made.ids[example["id"]] = created["id"]
        made.ids[f"own {resource.name}"] = created["id"]
    return made


def creates_what_the_document_shows(reader, http):
    for resource in CREATED:
        if resource.path_members or resource.name == "currencies":
            continue
        path = f"{ORGANIZATION}/{resource.path}"
        shown = reader.own(reader.answer("post", path))
        found = http.get(f"/{resource.path}/{shown['id']}").json()
        envelope = {"createdBy", "dtCreated", "lastModifiedBy", "dtLastModified"}
        if resource.name == "webhooks":
            envelope |= {"credentials"}  # The secret is masked.
        missing = {n for n in set(shown) - envelope if not same(found.get(n), shown[n])}
        assert not missing, (resource.name, found, shown)


def same(found, shown):
    if isinstance(shown, dict) and isinstance(found, dict):
        return all(same(found.get(name), value) for name, value in shown.items())
    if isinstance(shown, list) and isinstance(found, list):
        return len(found) == len(shown) and all(map(same, found, shown))
    return found == shown


def updates_are_taken(reader):
    for resource in CREATED:
        if "update" not in resource.verbs or resource.name == "currencies":
            continue
        path = f"{ORGANIZATION}/{resource.path}/{{id}}"
        id_ = reader.ids[f"own {resource.name}"]
        reader.send("put", path, id=id_, **reader.members(resource))


def own(reader, name):
    return reader.ids[f"own {name}"]


def other_operations_are_taken(reader):
    balance, group = own(reader, "balances"), own(reader, "resourceGroups")
    table, revision = own(reader, "lookupTables"), own(reader, "lookupTableRevisions")
    policy = own(reader, "permissionPolicies")
    data = "/lookuptables/{lookupTableId}/revisions/{lookupTableRevisionId}/data"
    of_revision = {"lookupTableId": table, "lookupTableRevisionId": revision}
    for method, path, members in (
        ("post", "/measurements", {}),
        ("post", "/measurements/rejected/requeue", {}),
        ("post", "/fileuploads/measurements/generateUploadUrl", {}),
        ("post", "/backfills", {}),
        ("post", "/usage/query", {}),
        ("post", "/dataexplorer/meters", {}),
        ("post", "/dataexplorer/usagedata", {}),
        ("post", "/dataexplorer/meterdimensions", {}),
        ("post", "/dataexplorer/dimensionvalues", {}),
        ("post", "/dataexplorer/bills", {}),
        ("post", "/dataexplorer/commitments", {}),
        ("post", "/dataexplorer/commitments/obligations", {}),
        ("post", "/dataexports/adhoc", {}),
        ("post", "/balances/{balanceId}/transactions", {"balanceId": balance}),
        ("post", "/balances/{balanceId}/balancechargeschedules/preview", {"balanceId": balance}),
        (
            "post",
            "/balances/{balanceId}/balancetransactionschedules/preview",
            {"balanceId": balance},
        ),
        (
            "post",
            "/resourcegroups/{type}/{resourceGroupId}/addresource",
            {"type": "account", "resourceGroupId": group},
        ),
        (
            "post",
            "/resourcegroups/{type}/{resourceGroupId}/removeresource",
            {"type": "account", "resourceGroupId": group},
        ),
        (
            "post",
            "/permissionpolicies/{permissionPolicyId}/addtoserviceuser",
            {"permissionPolicyId": policy},
        ),
        (
            "post",
            "/permissionpolicies/{permissionPolicyId}/removefromserviceuser",
            {"permissionPolicyId": policy},
        ),
        ("put", data, of_revision),
        ("put", f"{data}/{{lookupKey}}", {**of_revision, "lookupKey": "eu"}),
        ("post", f"{data}/jobs/download", of_revision),
        ("put", "/accounts/{id}/enddatebillingentities", {"id": own(reader, "accounts")}),
    ):
        reader.send(method, ORGANIZATION + path, **members)


def test_every_kind_that_is_created_over_the_api_has_an_example():
    assert {each.name for each in CREATED} <= set(EXAMPLES)
    assert set(EXAMPLES) <= set(BY_NAME)


@pytest.mark.long
def test_the_server_takes_the_examples_of_its_document(reader, http):
    creates_what_the_document_shows(reader, http)
    updates_are_taken(reader)
    other_operations_are_taken(reader)
