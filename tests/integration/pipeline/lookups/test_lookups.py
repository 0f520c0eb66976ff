from dataclasses import replace

import pytest

from meterlake.model.catalog.lookups import LookupTable, LookupTableRevisionState
from meterlake.model.errors import Conflict, Invalid, NotFound, Required, StaleVersion
from meterlake.model.resources import BY_NAME
from meterlake.model.values.ids import derived_id
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.entities import ResourceRef
from meterlake.pipeline.lookups import jobs as lookup_jobs
from meterlake.pipeline.lookups import lookups
from meterlake.pipeline.lookups.lookups import At
from meterlake.settings import Settings
from meterlake.stores.state.core.pages import Page
from tests.organizations import new_organization, open_new

TABLES, REVISIONS = BY_NAME["lookupTables"], BY_NAME["lookupTableRevisions"]
SCHEMA = {
    "fields": [{"type": "STRING", "name": "country"}, {"type": "NUMBER", "name": "rate"}],
    "keys": ["country"],
}
DE, US = {"country": "DE", "rate": 1}, {"country": "US", "rate": 2}


@pytest.fixture
def stores(tmp_path):
    settings = Settings(home=tmp_path / "home", _env_file=None)
    with open_new(settings) as opened:
        yield opened


@pytest.fixture
def org(stores):
    return new_organization(stores.state)


@pytest.fixture
def organization(stores, org):
    return stores.organization(org)


@pytest.fixture
def table(stores, org):
    document = {"name": "Discounts", "code": "discounts"}
    return entities.create(stores.organization(org), "a", ResourceRef(TABLES, {}), document)


@pytest.fixture
def new_revision(stores, org, table):
    def new_revision(name="First", **changes):
        here = ResourceRef(REVISIONS, {"lookupTableId": table["id"]})
        made = entities.create(
            stores.organization(org), "a", here, {"name": name, **SCHEMA, **changes}
        )
        return At(table["id"], made["id"])

    return new_revision


@pytest.fixture
def at(new_revision):
    return new_revision()


def revision(organization, at):
    members = {"lookupTableId": at.table_id}
    return entities.retrieve(organization, ResourceRef(REVISIONS, members, at.revision_id))


def changed(organization, at, **document):
    here = ResourceRef(REVISIONS, {"lookupTableId": at.table_id}, at.revision_id)
    return entities.update(organization, "a", here, {"name": "First", **SCHEMA, **document})


def publish(organization, at, **more):
    return lookups.set_status(organization, "a", at, {"status": "PUBLISHED", **more})


def test_publishing_archives_what_was_published(organization, table, at, new_revision):
    second = new_revision("Second")
    assert publish(organization, at, version=1)["status"] == "PUBLISHED"
    published = publish(organization, second)

    assert (published["status"], published["version"]) == ("PUBLISHED", 2)
    first = revision(organization, at)
    assert (first["status"], first["version"]) == ("ARCHIVED", 3)
    (shown,) = lookups.with_active(organization, [table])
    assert shown["activeRevision"]["id"] == second.revision_id


def test_a_table_without_published_revision_has_no_active_one(organization, table, at):
    assert lookups.with_active(organization, [table]) == [table]
    publish(organization, at)
    lookups.set_status(organization, "a", at, {"status": "ARCHIVED"})

    assert lookups.with_active(organization, [table]) == [table]


def test_history_tells_what_was_published_when(organization, at):
    publish(organization, at)
    lookups.set_status(organization, "a", at, {"status": "ARCHIVED"})

    with organization.reading() as reader:
        (state,) = reader.all(LookupTableRevisionState)
        past = reader.history(LookupTableRevisionState, state.id)
    assert [each.entity.status for each in past] == ["PUBLISHED", "ARCHIVED"]


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({}, Required),
        ({"status": "SHINY"}, Invalid),
        ({"status": ["PUBLISHED"]}, Invalid),
        ({"status": "DRAFT"}, Invalid),
        ({"status": "ARCHIVED"}, Invalid),
        ({"status": "PUBLISHED", "version": 2}, StaleVersion),
        ({"status": "PUBLISHED", "version": "1"}, Invalid),
    ],
)
def test_a_status_that_cannot_follow_changes_nothing(organization, at, document, error):
    before = revision(organization, at)
    with pytest.raises(error):
        lookups.set_status(organization, "a", at, document)

    assert revision(organization, at) == before


def test_data_is_written_and_read(organization, at):
    wrote = lookups.write_data(organization, "a", at, {"items": [US, DE]}, keys=True)
    read = lookups.read_data(organization, at)

    assert [item["lookupKey"] for item in wrote["items"]] == ["DE", "US"]
    assert read["items"] == [DE, US]
    assert read["version"] == wrote["version"] == 1
    assert read["createdBy"] == "a"
    assert lookups.read_data(organization, at, 1)["items"] == [DE]
    assert revision(organization, at)["itemCount"] == 2
    assert lookups.read_item(organization, replace(at, key="US"))["items"] == [US]


def test_data_that_was_never_written_is_empty(stores, org, at):
    assert lookups.read_data(stores.organization(org), at) == {"items": [], "version": 0}


def test_data_is_replaced_key_by_key(organization, at):
    lookups.write_data(organization, "a", at, {"items": [US, DE]})
    lookups.write_data(organization, "a", at, {"items": [US | {"rate": 3}], "version": 1})
    one = lookups.write_item(organization, "a", replace(at, key="DE"), {"item": {"country": "DE"}})
    gone = lookups.delete_item(organization, "a", replace(at, key="US"), {"version": 3})

    assert (one["items"], one["version"]) == ([{"country": "DE"}], 3)
    assert (gone["items"], gone["version"]) == ([US | {"rate": 3}], 4)
    assert lookups.read_data(organization, at)["items"] == [{"country": "DE"}]
    assert lookups.delete_data(organization, "a", at) == {"result": "deleted"}
    assert lookups.read_data(organization, at)["items"] == []
    assert revision(organization, at)["itemCount"] == 0


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({}, Required),
        ({"items": {}}, Invalid),
        ({"items": [US, US]}, Invalid),
        ({"items": [DE, {"rate": 1}]}, Required),
        ({"items": [DE, US | {"rate": "2"}]}, Invalid),
        ({"items": [US] * 2001}, Invalid),
        ({"items": [DE], "version": 2}, StaleVersion),
    ],
)
def test_bad_data_changes_nothing(organization, at, document, error):
    lookups.write_data(organization, "a", at, {"items": [US]})
    with pytest.raises(error):
        lookups.write_data(organization, "a", at, document)

    assert lookups.read_data(organization, at)["items"] == [US]


@pytest.mark.parametrize(
    ("key", "document", "error"),
    [
        ("US", {}, Required),
        ("US", {"item": DE}, Invalid),
        ("US,1", {"item": US}, Invalid),
        ("US", {"item": US, "version": 7}, StaleVersion),
    ],
)
def test_a_bad_item_changes_nothing(organization, at, key, document, error):
    lookups.write_data(organization, "a", at, {"items": [US]})
    with pytest.raises(error):
        lookups.write_item(organization, "a", replace(at, key=key), document)

    assert lookups.read_data(organization, at)["items"] == [US]


def test_an_item_that_is_not_there_is_not_found(organization, at):
    with pytest.raises(NotFound):
        lookups.read_item(organization, replace(at, key="US"))
    with pytest.raises(NotFound):
        lookups.delete_item(organization, "a", replace(at, key="US"), {})


def test_only_a_draft_is_written(organization, at, new_revision):
    lookups.write_data(organization, "a", at, {"items": [US]})
    publish(organization, at)
    source = new_revision("Second")
    document = {"revisionId": at.revision_id}
    for write in (
        lambda: lookups.write_data(organization, "a", at, {"items": [DE]}),
        lambda: lookups.write_item(organization, "a", replace(at, key="US"), {"item": US}),
        lambda: lookups.delete_item(organization, "a", replace(at, key="US"), {}),
        lambda: lookups.delete_data(organization, "a", at),
        lambda: lookups.copy_data(organization, "a", source, document),
        lambda: changed(organization, at, name="Second", version=2),
    ):
        with pytest.raises(Invalid, match="a DRAFT"):
            write()

    assert lookups.read_data(organization, at)["items"] == [US]


def test_columns_stay_as_long_as_there_is_data(organization, at):
    lookups.write_data(organization, "a", at, {"items": [US]})
    with pytest.raises(Invalid, match="keys"):
        changed(organization, at, keys=["rate"], version=1)
    lookups.delete_data(organization, "a", at)

    assert changed(organization, at, keys=["rate"], version=1)["keys"] == ("rate",)


@pytest.mark.long
def test_a_copy_makes_a_draft(organization, at):
    lookups.write_data(organization, "a", at, {"items": [US, DE]})
    publish(organization, at)
    answer = lookups.copy_data(organization, "a", at, {})

    copy = replace(at, revision_id=answer["revisionId"])
    shown = revision(organization, copy)
    assert (shown["name"], shown["status"], shown["itemCount"]) == ("First Copy", "DRAFT", 2)
    assert lookups.read_data(organization, copy)["items"] == [DE, US]
    jobs = lookup_jobs.list_jobs(organization, at, Page(10))["data"]
    job = next(each for each in jobs if each["type"] == "COPY")
    assert job == lookup_jobs.read_job(organization, at, answer["jobId"])
    assert (job["type"], job["status"]) == ("COPY", "SUCCEEDED")
    assert job["destinationLookupTableRevisionId"] == copy.revision_id
    assert lookup_jobs.delete_job(organization, "a", at, job["id"]) == job
    left = lookup_jobs.list_jobs(organization, at, Page(10))["data"]
    assert [each["type"] for each in left] == ["ARCHIVE"]


def test_the_name_of_a_copy_is_not_too_long(organization, new_revision):
    at = new_revision("n" * 200)
    copy = lookups.copy_data(organization, "a", at, {})["revisionId"]

    name = revision(organization, replace(at, revision_id=copy))["name"]
    assert (len(name), name[-6:]) == (200, "n Copy")


def test_a_copy_goes_to_a_draft_of_the_same_columns(organization, at, new_revision):
    lookups.write_data(organization, "a", at, {"items": [US]})
    same, other = new_revision("Same"), new_revision("Other", keys=["rate"])
    lookups.write_data(organization, "a", same, {"items": [DE, US | {"rate": 9}]})
    lookups.copy_data(organization, "a", at, {"revisionId": same.revision_id})

    assert lookups.read_data(organization, same)["items"] == [DE, US]
    for target in (other.revision_id, at.revision_id, "same", 1):
        with pytest.raises(Invalid, match="revisionId"):
            lookups.copy_data(organization, "a", at, {"revisionId": target})
    with pytest.raises(NotFound):
        lookups.copy_data(organization, "a", at, {"revisionId": derived_id("none")})


def test_a_revision_is_deleted_with_its_data(organization, table, at):
    lookups.write_data(organization, "a", at, {"items": [US]})
    lookups.copy_data(organization, "a", at, {})
    with pytest.raises(Conflict):
        entities.delete(organization, "a", ResourceRef(TABLES, {}, table["id"]))

    gone = lookups.delete_revision(organization, "a", at)

    assert gone["itemCount"] == 1
    with pytest.raises(NotFound):
        lookups.read_data(organization, at)
    with pytest.raises(NotFound):
        lookups.delete_revision(organization, "a", at)


def test_a_table_without_revisions_is_deleted(organization, table, at):
    lookups.delete_revision(organization, "a", at)
    entities.delete(organization, "a", ResourceRef(TABLES, {}, table["id"]))

    with organization.reading() as reader:
        assert reader.all(LookupTable) == []
        assert reader.all(LookupTableRevisionState) == []


def test_a_revision_of_another_table_is_not_found(organization, at):
    elsewhere = replace(at, table_id=derived_id("another"))
    for read in (
        lambda: lookups.read_data(organization, elsewhere),
        lambda: lookups.delete_revision(organization, "a", elsewhere),
        lambda: publish(organization, elsewhere),
        lambda: lookup_jobs.list_jobs(organization, elsewhere, Page(1)),
    ):
        with pytest.raises(NotFound):
            read()
