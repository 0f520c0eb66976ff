"""What the list of events shows to whom, and for how long."""

from uuid import uuid4

import pytest
from m3ter.types import EventGetFieldsResponse, EventGetTypesResponse, EventResponse

from meterlake.model.configuration.notifications import ScheduledEventConfiguration
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.resources.events import CATEGORIES, Event
from meterlake.model.values import wire
from meterlake.pipeline.events.events import (
    NEVER,
    EventFilters,
    get_event,
    list_event_fields,
    list_event_types,
    list_events,
)
from meterlake.settings import Settings
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.events import events
from tests.organizations import Clock, new_organization, open_new

CREATED = "configuration.account.created"


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def stores(tmp_path, clock):
    settings = Settings(home=tmp_path / "home", _env_file=None)
    with open_new(settings, clock) as opened:
        yield opened


@pytest.fixture
def org(stores):
    return new_organization(stores.state)


@pytest.fixture
def transaction(stores, org):
    return lambda: stores.state.transaction(org, "USER_1")


@pytest.fixture
def create(transaction):
    def creator(entity):
        with transaction() as opened:
            return opened.create(entity).id

    return creator


@pytest.fixture
def account(create):
    return lambda code: create(Account(name=code, code=code, email_address="a@acme.example"))


@pytest.fixture
def listed(stores, org):
    return lambda size=100, token=None, **filters: list_events(
        stores.organization(org), EventFilters(**filters), Page(size, token)
    )


@pytest.fixture
def ids(listed):
    return lambda **filters: [each["id"] for each in listed(**filters)["data"]]


def test_an_event_is_what_the_contract_says(stores, org, account, listed):
    id_ = account("acme")

    [event] = listed(account_id=id_)["data"]
    assert event["eventName"] == event["m3terEvent"]["eventName"] == CREATED
    assert event["m3terEvent"]["eventData"]["newDto"]["id"] == id_
    assert event["dtActioned"] == NEVER
    assert get_event(stores.organization(org), event["id"]) == event
    EventResponse.model_validate_json(wire.dumps(event))


def test_there_is_no_event_that_there_is_not(stores, org):
    with pytest.raises(NotFound):
        get_event(stores.organization(org), str(uuid4()))


def test_the_list_shows_28_days_and_the_rest_is_kept(stores, org, account, ids, clock):
    id_ = account("acme")
    [event] = ids(account_id=id_)
    clock.advance(days=28)
    assert ids(account_id=id_) == [event]
    clock.advance(seconds=1)

    assert ids() == []
    assert ids(ids=(event,)) == [event]
    assert get_event(stores.organization(org), event)["id"] == event


def test_pages_follow_each_other(account, listed):
    for n in range(3):
        account(f"a{n}")
    one = listed(size=2, event_name=CREATED)
    two = listed(size=2, token=one["nextToken"], event_name=CREATED)

    codes = [each["m3terEvent"]["eventData"]["newDto"]["code"] for each in one["data"]]
    assert codes == ["a2", "a1"]
    assert len(two["data"]) == 1
    assert "nextToken" not in two


def test_ids_go_with_no_other_filter(listed):
    with pytest.raises(Invalid, match="without other filters"):
        listed(ids=("x",), account_id="y")
    with pytest.raises(Invalid, match="without other filters"):
        listed(ids=("x",), include_actioned=True)


def test_an_event_that_somebody_saw_to_is_shown_only_when_asked_for(
    account, listed, ids, transaction, clock
):
    id_ = account("acme")
    [event] = ids(account_id=id_)
    with transaction() as opened:
        events.mark_actioned(opened, event, clock.time)

    assert ids(account_id=id_) == []
    assert ids(ids=(event,)) == [event]
    [seen] = listed(account_id=id_, include_actioned=True)["data"]
    assert seen["dtActioned"] == clock.time


def test_categories_are_names(transaction, ids):
    failed = [name for names in CATEGORIES.values() for name in names]
    with transaction() as opened:
        for name in failed:
            event = Event(name, "Job", None, {"newDto": {"message": "no"}})
            events.write(opened.connection, opened.org_id, opened.now, opened.new_id, event)

    assert len(ids(event_type="IntegrationEvent")) == 5
    assert len(ids(event_type="IngestValidationFailure")) == 1
    assert len(ids(event_type="DataExportJobFailure", event_name="dataexport.job.failure")) == 1
    assert ids(event_type="DataExportJobFailure", event_name=CREATED) == []
    with pytest.raises(Invalid, match="one of IntegrationEvent"):
        ids(event_type="Other")


def test_the_types_have_the_scheduled_events_of_the_organization(stores, org, create):
    organization = stores.organization(org)
    name = "scheduled.bill.reminder"
    assert name not in list_event_types(organization)["events"]
    create(ScheduledEventConfiguration(name=name, entity="Bill", field="endDate", offset=5))

    types = list_event_types(organization)
    EventGetTypesResponse.model_validate(types)
    assert name in types["events"]
    assert list_event_fields(organization, name)["events"][name]["new.endDate"] == "string"


def test_the_fields_of_all_types_or_of_one(stores, org):
    organization = stores.organization(org)
    everything = list_event_fields(organization)

    EventGetFieldsResponse.model_validate(everything)
    assert sorted(everything["events"]) == list_event_types(organization)["events"]
    assert list_event_fields(organization, CREATED)["events"] == {
        CREATED: everything["events"][CREATED]
    }
    with pytest.raises(Invalid, match="eventName"):
        list_event_fields(organization, "configuration.teapot.created")
