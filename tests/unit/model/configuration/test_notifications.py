import re

import pytest

from meterlake.model.configuration.notifications import (
    NotificationConfiguration,
    ScheduledEventConfiguration,
)
from meterlake.model.errors import Invalid
from meterlake.model.resources import BY_ENTITY
from meterlake.model.resources.event_fields import ARRAY, DATES, MAP, OTHERS
from meterlake.model.resources.events import (
    dates_of,
    entities_with_events,
    fields_of,
    published_types,
)
from meterlake.model.resources.notifications import calculation_holds_or_not
from meterlake.model.resources.proposal import Proposal
from meterlake.model.rules import Proposed
from meterlake.model.values.entity import Configuration
from meterlake.stages.config.check import check
from tests.entity_rules import refused, required
from tests.organizations import added, after

NOTIFICATION = {
    "name": "Bill approved",
    "description": "Tells accounting",
    "code": "bill-approved",
    "eventName": "billing.bill.updated",
}
EVENT = {"name": "scheduled.bill.reminder", "entity": "Bill", "field": "endDate", "offset": 5}


def test_what_is_required_is_what_the_contract_requires():
    assert required(NotificationConfiguration, NOTIFICATION) == set(NOTIFICATION)
    assert required(ScheduledEventConfiguration, EVENT) == set(EVENT)


@pytest.mark.parametrize("name", sorted(NOTIFICATION))
def test_a_notification_has_no_empty_texts(name):
    assert refused(NotificationConfiguration, NOTIFICATION, **{name: ""}) == {name}


@pytest.mark.parametrize(
    ("changes", "place"),
    [({"active": "yes"}, "active"), ({"alwaysFireEvent": 1}, "alwaysFireEvent")],
)
def test_a_notification_that_breaks_the_contract_is_refused(changes, place):
    assert refused(NotificationConfiguration, NOTIFICATION, **changes) == {place}


def test_a_notification_is_active_and_looks_at_its_calculation():
    notification = NotificationConfiguration.from_wire(NOTIFICATION)

    assert notification.active
    assert not notification.always_fire_event


@pytest.mark.parametrize("offset", [3661, -3661, 2**31, -(2**31) - 1, 1.5, "5", True])
def test_an_offset_is_a_number_of_days(offset):
    assert refused(ScheduledEventConfiguration, EVENT, offset=offset) == {"offset"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "bill.reminder"}, "scheduled.bill.<a name without dots>"),
        ({"name": "scheduled.bill"}, "scheduled.bill.<a name without dots>"),
        ({"name": "scheduled.bill."}, "scheduled.bill.<a name without dots>"),
        ({"name": "scheduled.bill.a.b"}, "scheduled.bill.<a name without dots>"),
        ({"name": "scheduled.contract.a"}, "name: 'scheduled.contract.a'"),
        ({"entity": "a bill"}, "entity: 'a bill'"),
        ({"field": "end date"}, "field: 'end date'"),
    ],
)
def test_the_name_of_a_scheduled_event_says_what_it_is_about(changes, sentence):
    with pytest.raises(Invalid, match=sentence):
        after(added("scheduledEventConfigurations", **EVENT | changes))


@pytest.mark.parametrize("changes", [{}, {"name": "scheduled.bill.enddateEvent", "offset": -3660}])
def test_a_scheduled_event_is_accepted(changes):
    found = after(added("scheduledEventConfigurations", **EVENT | changes))

    assert list(found.all(ScheduledEventConfiguration))


SAMPLE = (
    "(new.amountSpent >= ((new.amount*90)/100)) AND"
    " ((old.amountSpent <= ((old.amount*90)/100)) OR (old.amountSpent == null))"
)
COMMITMENT = "configuration.commitment.updated"


@pytest.mark.parametrize(
    ("event", "calculation"),
    [
        ("billing.bill.updated", None),
        ("billing.bill.updated", "  "),
        (COMMITMENT, SAMPLE),
        (
            "billing.bill.updated",
            'new.billTotal > 1000 AND new.status == "APPROVED" AND new.locked',
        ),
        (
            "billing.bill.deleted",
            "differenceInSeconds(toInstant(old.endDate), toInstant(old.dueDate)) > 0",
        ),
        ("billing.bill.updated", "new.currencyConversions == null"),
        ("billing.bill.updated", "null != old.currencyConversions OR new.locked"),
        ("billing.bill.created", "old.locked == null AND new.locked"),
        ("billing.bill.deleted", "new.currencyConversions == null"),
        ("ingest.validation.failure", "new.failures > 10"),
        ("ingest.freshness.alert", "new.hours >= 2.5"),
        ("scheduled.bill.reminder", "new.billTotal > 0"),
    ],
)
def test_a_notification_of_what_can_happen_is_accepted(event, calculation):
    known = after(added("scheduledEventConfigurations", **EVENT))
    fields = NOTIFICATION | {"eventName": event, "calculation": calculation}

    after(added("notificationConfigurations", **fields), known)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"eventName": "billing.bil.updated"}, "did you mean billing.bill.updated"),
        ({"eventName": "anything at all"}, "eventName: 'anything at all'"),
        ({"eventName": "scheduled.bill.reminder"}, "one of the organization's event types"),
        ({"calculation": "when it is late"}, "calculation: 'when it is late'"),
        ({"calculation": "new.billTotall > 1"}, "did you mean new.billTotal"),
        ({"calculation": "billTotal > 1"}, "did you mean old.billTotal"),
        ({"calculation": "new.billTotal"}, "the result"),
        ({"calculation": 'new.billTotal > "1"'}, "calculation: "),
        ({"calculation": "new.status > 1"}, "calculation: "),
        ({"calculation": "new.currencyConversions == new.status"}, "is of the type array"),
        (
            {"calculation": "isnull(new.currencyConversions, null) == null"},
            "compared with null only",
        ),
        ({"calculation": "new.currencyConversions < null"}, "compared with null only"),
        (
            {"eventName": "billing.bill.created", "calculation": "old.lockd"},
            "did you mean old.locked",
        ),
        (
            {"eventName": "billing.bill.created", "calculation": "old.currencyConversions == 1"},
            "compared with null only",
        ),
        ({"calculation": 'lookup("t", "f", 1) == 1'}, "calculation: "),
        ({"calculation": "(" * 60 + "true" + ")" * 60}, "calculation: "),
    ],
)
def test_a_notification_of_what_cannot_happen_is_refused(changes, sentence):
    with pytest.raises(Invalid) as caught:
        after(added("notificationConfigurations", **NOTIFICATION | changes))
    assert sentence in str(caught.value)


def test_every_event_type_has_fields_that_a_notification_may_name():
    types = published_types()
    assert len(types) > 100
    for event in types:
        fields = {name: kind for name, kind in fields_of(event).items() if kind not in {MAP, ARRAY}}
        text = " AND ".join(f"isnull({name}, null) == null" for name in list(fields)[:20])
        entity = NotificationConfiguration.from_wire(
            NOTIFICATION | {"eventName": event, "calculation": text}
        )
        calculation_holds_or_not(Proposed("1", entity, None, Configuration(())))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"entity": "Bil", "name": "scheduled.bil.a"}, "entity: 'Bil' .* did you mean [bB]ill"),
        ({"entity": "LookupTable", "name": "scheduled.lookuptable.a"}, "entity: 'LookupTable'"),
        ({"field": "endDat"}, "field: 'endDat' .*did you mean endDate"),
        ({"field": "billTotal"}, "a date of Bill: .*dueDate"),
        ({"field": "status"}, "field: 'status'"),
        (
            {"entity": "Plan", "field": "endDate", "name": "scheduled.plan.a"},
            "field: 'endDate' .*dtCreated",
        ),
        (
            {"entity": "Meter", "field": "dataFields", "name": "scheduled.meter.a"},
            "field: 'dataFields'",
        ),
    ],
)
def test_a_scheduled_event_is_of_a_date_that_there_is(changes, sentence):
    with pytest.raises(Invalid, match=sentence):
        after(added("scheduledEventConfigurations", **EVENT | changes))


@pytest.mark.parametrize("entity", entities_with_events())
def test_a_scheduled_event_is_of_any_date_of_any_entity_with_events(entity):
    dates = dates_of(entity)
    assert {"dtCreated", "dtLastModified"} <= set(dates)
    for field in dates:
        name = f"scheduled.{entity.lower()}.{field}"
        after(
            added("scheduledEventConfigurations", name=name, entity=entity, field=field, offset=1)
        )


def test_dates_of_what_is_no_resource_are_known():
    others = {name: kind for fields in OTHERS.values() for name, kind in fields.items()}
    dated = {name for name in others if re.search(r"(Date|DateTimeUTC|Run)$", name)}
    assert dated <= DATES
    assert {others[name] for name in DATES & set(others)} == {"string"}


def test_a_scheduled_event_that_a_notification_names_keeps_its_name_and_entity():
    known = after(added("scheduledEventConfigurations", **EVENT))
    event = next(known.all(ScheduledEventConfiguration))
    fields = NOTIFICATION | {"eventName": EVENT["name"], "calculation": "new.billTotal > 0"}
    known = after(added("notificationConfigurations", **fields), known)

    def change(**changes):
        entity = ScheduledEventConfiguration.from_wire(EVENT | changes)
        check(known, [Proposal("x", BY_ENTITY[type(entity)], event.id, entity, event, ())])

    change(offset=7, field="dueDate")
    with pytest.raises(Invalid, match=r"name: .* NotificationConfiguration 'bill-approved'"):
        change(name="scheduled.bill.other")
    with pytest.raises(Invalid, match=r"name: .* NotificationConfiguration 'bill-approved'"):
        change(name="scheduled.contract.reminder", entity="Contract")
