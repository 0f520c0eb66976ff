"""Lookup tables, queries, exports, notifications and integrations in configuration files."""

import copy

import pytest

from meterlake.model.resources import BY_NAME, CONFIG
from meterlake.model.resources.proposal import Document
from meterlake.model.values import wire
from meterlake.pipeline.config.apply_configuration import ChangeAction, apply, export
from meterlake.settings import Settings
from tests.organizations import DOCUMENTS, new_organization, open_new

SUM = {"meterId": "egress", "fieldCode": "gb", "fieldType": "MEASURE", "function": "SUM"}
WHERE = {"meterId": "egress", "fieldCode": "region"}
SELECTION = {
    "meterIds": ["egress"],
    "accountIds": ["acme"],
    "dimensionFilters": [{**WHERE, "values": ["eu"]}],
    "aggregations": [SUM],
    "groups": [{"groupType": "DIMENSION", **WHERE}, {"groupType": "TIME", "frequency": "DAY"}],
}
CONTENT = {
    **DOCUMENTS,
    "lookupTables": [{"code": "discounts", "name": "Discounts", "customFields": {"a": 1}}],
    "lookupTableRevisions": [
        {
            "lookupTableId": "discounts",
            "name": "First",
            "fields": [
                {"type": "STRING", "name": "country"},
                {"type": "NUMBER", "name": "rate"},
            ],
            "keys": ["country"],
            "startDate": "2026-01-01T00:00:00Z",
        }
    ],
    "usageSavedQueries": [{"name": "q", "usageQuery": {"timePeriod": "TODAY", **SELECTION}}],
    "exportDestinations": [
        {
            "code": "ours",
            "name": "Ours",
            "bucketName": "abc",
            "iamRoleArn": "arn:aws:iam::12:role/r",
        },
        {
            "code": "theirs",
            "name": "Theirs",
            "destinationType": "GCS",
            "bucketName": "abc",
            "projectNumber": "1",
            "poolId": "pool",
            "providerId": "provider",
            "partitionOrder": "TYPE_FIRST",
        },
    ],
    "exportSchedules": [
        {
            "code": "usage",
            "name": "Usage",
            "sourceType": "USAGE",
            "timePeriod": "YESTERDAY",
            "destinationIds": ["theirs", "ours"],
            "scheduleType": "HOUR",
            "period": 6,
            "offset": 30,
            **SELECTION,
        },
        {
            "code": "bills",
            "name": "Bills",
            "sourceType": "OPERATIONAL",
            "operationalDataTypes": ["BILLS", "ACCOUNTS"],
            "cronExpression": "0 6 * * *",
        },
    ],
    "notificationConfigurations": [
        {
            "code": "approved",
            "name": "Approved",
            "description": "Tells",
            "eventName": "billing.bill.updated",
            "alwaysFireEvent": True,
        }
    ],
    "scheduledEventConfigurations": [
        {"name": "scheduled.bill.reminder", "entity": "Bill", "field": "endDate", "offset": 5}
    ],
    "webhooks": [
        {
            "code": "chat",
            "name": "Chat",
            "description": "Where people look",
            "url": "https://hooks.example.com/",
            "credentials": {"type": "M3TER_SIGNED_REQUEST", "apiKey": "key", "secret": "secret"},
        }
    ],
    "integrationConfigs": [
        {
            "entityType": "Notification",
            "destination": "Webhook",
            "destinationId": "chat",
            "configData": {"usersToNotify": []},
        }
    ],
    "externalMappings": [
        {
            "m3terEntity": "Account",
            "m3terId": "1",
            "externalSystem": "Salesforce",
            "externalTable": "Account",
            "externalId": "2",
        }
    ],
}
NAMES = sorted(set(CONTENT) - set(DOCUMENTS))


@pytest.fixture
def stores(tmp_path):
    settings = Settings(home=tmp_path / "home", _env_file=None)
    with open_new(settings) as opened:
        yield opened


def applied(organization, content):
    documents = [Document("all.yaml", copy.deepcopy(content))]
    changes = apply(organization.state, organization.id, documents, "a")
    return {change.kind: change.action for change in changes if change.kind in NAMES}


def without_ids(exported):
    return {
        name: [
            {key: value for key, value in each.items() if key != "id"} for each in exported[name]
        ]
        for name in NAMES
        if name != "webhooks"
    }


def test_every_kind_of_these_is_in_configuration_files():
    assert {BY_NAME[name].area for name in NAMES} == {CONFIG}


def test_what_is_applied_again_changes_nothing(stores):
    org = new_organization(stores.state)
    organization = stores.organization(org)
    assert set(applied(organization, CONTENT).values()) == {ChangeAction.CREATED}

    assert set(applied(organization, CONTENT).values()) == {ChangeAction.UNCHANGED}


def test_an_export_changes_nothing_where_it_comes_from_and_makes_the_same_elsewhere(stores):
    org = new_organization(stores.state)
    organization = stores.organization(org)
    other = new_organization(stores.state, "other")
    applied(organization, CONTENT)
    exported = export(stores.state, org)

    again = applied(organization, exported)
    exported["webhooks"][0]["credentials"]["secret"] = "the other organization's own"
    applied(stores.organization(other), exported)

    assert set(again.values()) == {ChangeAction.UNCHANGED}
    elsewhere = export(stores.state, other)
    assert len(elsewhere["webhooks"]) == 1
    assert wire.dumps_sorted(without_ids(elsewhere)) == wire.dumps_sorted(without_ids(exported))
