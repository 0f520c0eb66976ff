"""Every declared type of events happens: here, where another test makes it happen, or not at all.

What cannot happen says why.
"""

from pathlib import Path

import pytest

from meterlake.model.events import event_types
from tests.e2e.api.bodies import ROWS
from tests.e2e.api.methods import api_of
from tests.e2e.api.test_resources import ORGANIZATION

ROOT = Path(__file__).parents[3]
BILLING = "tests/integration/api/test_billing_events.py::test_each_type_happens"
ALERTS = "tests/integration/pipeline/events/test_alerts.py"
SENDER = "tests/integration/pipeline/integrations/test_sender.py"
ACTIONS = ("created", "updated", "deleted")
# The tests that make the others happen.
ELSEWHERE = {
    **{name: BILLING for name in event_types() if name.startswith("billing.")},
    "dataexport.job.failure": "tests/integration/api/test_exports.py"
    "::test_a_job_that_fails_raises_an_event",
    "bills.lateusage.decision": "tests/integration/api/test_late_usage.py"
    "::test_what_was_decided_of_late_usage_is_an_event_that_makes_notifications_go_out",
    "bills.verification.alert": "tests/integration/pipeline/billing/test_verify.py"
    "::test_bills_that_differ_are_an_incident_until_they_do_not",
    "ingest.books.alert": "tests/integration/pipeline/home/test_reconciliation.py"
    "::test_books_that_do_not_balance_are_among_the_open_alerts_until_they_do",
    "ingest.freshness.alert": f"{ALERTS}"
    "::test_a_meter_that_gets_nothing_any_more_is_one_incident_until_it_does",
    "ingest.rejectrate.alert": f"{ALERTS}"
    "::test_too_many_rejected_rows_are_one_incident_until_they_are_few_again",
    "ingest.upload.alert": "tests/integration/pipeline/ingest/test_reporting.py"
    "::test_an_upload_that_fails_raises_one_event_and_one_alert_that_carry_its_job",
    "ingest.validation.failure": "tests/integration/api/test_failed_ingest.py"
    "::test_the_event_says_what_happened",
    **{
        f"integration.{name}.error": f"{SENDER}::test_a_failure_is_tried_ten_times_within_75_hours"
        for name in ("authentication", "perform")
    },
    "integration.disabled.error": f"{SENDER}::test_410_ends_the_run_and_disables_the_webhook",
    "integration.missingaccountmapping.error": "tests/integration/pipeline/integrations"
    "/test_stripe.py::test_the_end_of_a_run_without_success_is_an_event",
    "integration.validation.error": "tests/integration/pipeline/events/test_reader.py"
    "::test_an_error_is_an_event_and_stops_nobody",
}
_ORGANIZATION = "no operation changes or removes an organization; its settings have events"
_ALERTS = "there are no alerts of configuration; what is wrong are events `ingest.….alert`"
_BANDS = "a band has no life of its own: the event of its pricing says so"
_SINGLETON = "every organization has one"
NEVER = {
    **{f"configuration.organization.{action}": _ORGANIZATION for action in ACTIONS[1:]},
    **{f"configuration.alert.{action}": _ALERTS for action in ACTIONS},
    **{f"configuration.pricingband.{action}": _BANDS for action in ACTIONS},
    "configuration.organizationconfig.deleted": _SINGLETON,
    "configuration.customfield.deleted": _SINGLETON,
}
HERE = sorted(set(event_types()) - ELSEWHERE.keys() - NEVER.keys())


@pytest.fixture(scope="module")
def happened(sdk, http, world):
    """The names of all events after each resource has lived, and their sides."""
    world.allow_custom_fields()
    for row in ROWS:
        if not row.other:
            live(sdk, world, row)
    group = http.post("/metergroups", json={"name": "Traffic"}).json()
    http.put(f"/metergroups/{group['id']}", json={"name": "Net", "version": 1}).raise_for_status()
    http.delete(f"/metergroups/{group['id']}").raise_for_status()
    settings = sdk.organization_config.retrieve()
    sdk.organization_config.update(**ORGANIZATION, version=settings.version)
    found = sdk.events.list(page_size=100, include_actioned=True)
    return {each.event_name: sorted(each.m3ter_event["eventData"]) for each in found}


def live(sdk, world, row):
    api, path, body = api_of(sdk, row.api), row.path(world), row.least(world)
    made = api.create(**path, **body)
    api.update(made.id, **path, **{**body, **row.change}, version=1)
    api.delete(made.id, **path)


@pytest.mark.parametrize("name", HERE)
def test_it_happens_with_its_sides(happened, name):
    sides = {"created": ["newDto"], "updated": ["newDto", "oldDto"], "deleted": ["oldDto"]}

    assert happened[name] == sides[name.rpartition(".")[2]]


def test_the_walk_knows_the_published_list(sdk):
    types = set(sdk.events.get_types().events)
    assert types == {*HERE, *ELSEWHERE, *NEVER}
    assert ELSEWHERE.keys().isdisjoint(NEVER)
    assert len(HERE) > 50


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_another_test_makes_it_happen(name):
    file, _, function = ELSEWHERE[name].partition("::")

    assert f"\ndef {function}(" in (ROOT / file).read_text("utf-8")


@pytest.mark.parametrize("name", sorted(NEVER))
def test_what_cannot_happen_did_not(happened, name):
    assert name not in happened, NEVER[name]
