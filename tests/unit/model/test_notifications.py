import pytest

from meterlake.model.errors import Invalid
from meterlake.model.notifications import NotificationConfiguration, ScheduledEventConfiguration
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


@pytest.mark.parametrize("offset", [2**31, -(2**31) - 1, 1.5, "5"])
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


@pytest.mark.parametrize(
    "changes", [{}, {"name": "scheduled.bill.enddateEvent", "offset": -(2**31)}]
)
def test_a_scheduled_event_is_accepted(changes):
    found = after(added("scheduledEventConfigurations", **EVENT | changes))

    assert list(found.all(ScheduledEventConfiguration))
