"""Which notifications an event makes go out."""

from datetime import UTC, datetime, timedelta

from meterlake.model.configuration.notifications import NotificationConfiguration
from meterlake.model.values.entity import Record
from meterlake.stages.events.match import ActiveNotifications

NOW = datetime(2026, 10, 1, tzinfo=UTC)
NAME = "billing.bill.updated"
DATA = {"newDto": {"billTotal": 5, "version": 0}, "oldDto": {}}


def notification(code, created=NOW, **fields):
    fields = {"event_name": NAME, **fields}
    entity = NotificationConfiguration(name=code, description=code, code=code, **fields)
    return Record(code, 1, entity, created, "USER_1", created, "USER_1")


def fired(*records, name=NAME, written=NOW):
    found = ActiveNotifications(records).match(name, DATA, written)
    return [each.id for each in found.fired]


def test_an_active_notification_whose_calculation_is_true_goes_out():
    assert fired(
        notification("true", calculation="new.billTotal > 1"),
        notification("false", calculation="new.billTotal > 5"),
        notification("off", calculation="new.billTotal > 1", active=False),
        notification("always", always_fire_event=True, calculation="new.billTotal > 5"),
        notification("other", event_name="billing.bill.created", always_fire_event=True),
        notification("nothing", calculation="  "),
        notification("none"),
    ) == ["true", "always"]


def test_no_notification_looks_at_events_before_it():
    young = NOW + timedelta(microseconds=1)
    records = [
        notification("young", young, calculation="new.billTotal > 1"),
        notification("old", calculation="new.billTotal > 1"),
    ]

    assert fired(*records) == ["old"]
    assert fired(*records, written=young) == ["young", "old"]


def test_a_calculation_without_an_answer_stops_no_other():
    found = ActiveNotifications(
        [
            notification("bad", calculation="1 / new.version > 1"),
            notification("good", calculation="new.billTotal == 5"),
            notification("worse", calculation="nonsense("),
        ]
    ).match(NAME, DATA, NOW)

    assert [each.id for each in found.fired] == ["good"]
    assert {each.notification.id: each.message for each in found.failed} == {
        "bad": "division by zero",
        "worse": "column 10: something is missing at the end",
    }
