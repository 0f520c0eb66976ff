import pytest

from meterlake.model.catalog.lookups import (
    LookupTable,
    LookupTableRevision,
    LookupTableRevisionState,
    LookupTableRevisionStatus,
    active_revision,
    state_id,
)
from meterlake.model.errors import Invalid
from meterlake.model.resources import response
from meterlake.model.rules import Proposed
from meterlake.model.rules.lookups import check_next, only_drafts_change
from tests.entity_rules import refused, required
from tests.organizations import added, after

ID = "00000000-0000-4000-8000-000000000000"
COUNTRY = {"type": "STRING", "name": "country"}
RATE = {"type": "NUMBER", "name": "rate"}
REVISION = {"lookupTableId": ID, "name": "First", "fields": [COUNTRY, RATE], "keys": ["country"]}
TABLE = {"name": "Discounts", "code": "discounts"}

DRAFT, PUBLISHED, ARCHIVED = LookupTableRevisionStatus


def fields(count):
    return [{"type": "STRING", "name": f"f{number}"} for number in range(count)]


def world(**changes):
    """A configuration with a table and a revision."""
    documents = added("lookupTables", **TABLE)
    revision = REVISION | {"lookupTableId": "discounts"} | changes
    return after([*documents, *added("lookupTableRevisions", **revision)])


def with_state(status=DRAFT, items=0):
    """The configuration, the revision, and the state that is kept of it."""
    around = world()
    (revision,) = around.all(LookupTableRevision)
    state = LookupTableRevisionState(
        lookup_table_id=revision.entity.lookup_table_id,
        revision_id=revision.id,
        status=status,
        item_count=items,
    )
    kept = type(revision)(
        state_id(revision.id), 1, state, revision.created, "a", revision.created, "a"
    )
    return type(around)([*around.all(LookupTable), revision, kept]), revision


def test_what_is_required_is_what_the_contract_requires():
    assert required(LookupTable, TABLE) == {"name", "code"}
    assert required(LookupTableRevision, REVISION) == set(REVISION)


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"name": ""}, "name"),
        ({"name": "n" * 201}, "name"),
        ({"fields": fields(1)}, "fields"),
        ({"fields": fields(11)}, "fields"),
        ({"keys": []}, "keys"),
        ({"keys": [f"f{number}" for number in range(6)]}, "keys"),
        ({"fields": [COUNTRY, {"type": "DATE", "name": "day"}]}, "fields[1].type"),
        ({"fields": [COUNTRY, {"type": "STRING"}]}, "fields[1].name"),
        ({"fields": [COUNTRY, {"type": "STRING", "name": "1st"}]}, "fields[1].name"),
        ({"fields": [COUNTRY, {"type": "STRING", "name": "n" * 257}]}, "fields[1].name"),
        ({"startDate": "soon"}, "startDate"),
    ],
)
def test_a_revision_that_breaks_the_contract_is_refused(changes, place):
    assert refused(LookupTableRevision, REVISION, **changes) == {place}


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "n" * 200},
        {"fields": fields(2)},
        {"fields": fields(10), "keys": [f"f{number}" for number in range(5)]},
        {"fields": [COUNTRY, {"type": "STRING", "name": "ß" * 256}]},
        {"fields": [COUNTRY, {"type": "STRING", "name": "_$é9"}]},
        {"startDate": "2026-01-01T00:00:00Z"},
    ],
)
def test_a_revision_at_the_limits_is_accepted(changes):
    assert LookupTableRevision.from_wire(REVISION | changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"fields": [COUNTRY, COUNTRY]}, r"fields\[1\].name: 'country'"),
        ({"keys": ["planet"]}, r"keys\[0\]: 'planet'"),
        ({"keys": ["country", "country"]}, r"keys\[1\]: 'country'"),
        ({"keys": ["rate", "country"]}, "at least one field that is no key"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(changes, sentence):
    with pytest.raises(Invalid, match=sentence):
        world(**changes)


@pytest.mark.parametrize(
    ("status", "items", "changes", "sentence"),
    [
        (PUBLISHED, 0, {"name": "Second"}, "status: 'PUBLISHED'"),
        (ARCHIVED, 0, {"name": "Second"}, "status: 'ARCHIVED'"),
        (DRAFT, 1, {"keys": ("rate",)}, "keys: .* 1 item;"),
    ],
)
def test_what_is_published_and_the_columns_of_data_stay(status, items, changes, sentence):
    around, revision = with_state(status, items)
    changed = revision.entity.model_copy(update=changes)

    with pytest.raises(Invalid, match=sentence):
        only_drafts_change(Proposed(revision.id, changed, revision.entity, around))


@pytest.mark.parametrize(
    ("status", "items", "changes"),
    [
        (DRAFT, 1, {"name": "Second"}),
        (DRAFT, 0, {"keys": ("rate",)}),
        (PUBLISHED, 1, {}),
    ],
)
def test_a_draft_changes_as_long_as_its_data_fits(status, items, changes):
    around, revision = with_state(status, items)
    changed = revision.entity.model_copy(update=changes)

    only_drafts_change(Proposed(revision.id, changed, revision.entity, around))
    only_drafts_change(Proposed(revision.id, changed, None, around))
    only_drafts_change(Proposed(revision.id, changed, revision.entity, world()))


@pytest.mark.parametrize(("before", "then"), [(DRAFT, PUBLISHED), (PUBLISHED, ARCHIVED)])
def test_a_status_moves_on(before, then):
    check_next(before, then)


@pytest.mark.parametrize(
    ("before", "then"),
    [
        (DRAFT, DRAFT),
        (DRAFT, ARCHIVED),
        (PUBLISHED, DRAFT),
        (PUBLISHED, PUBLISHED),
        (ARCHIVED, DRAFT),
        (ARCHIVED, PUBLISHED),
        (ARCHIVED, ARCHIVED),
    ],
)
def test_a_status_never_moves_back(before, then):
    with pytest.raises(Invalid, match=f"the revision is {before} (and only becomes|and stays so)"):
        check_next(before, then)


def test_a_new_revision_is_a_draft_without_items():
    around = world()
    (revision,) = around.all(LookupTableRevision)
    (table,) = around.all(LookupTable)

    assert response(revision, around)["status"] == "DRAFT"
    assert response(revision, around)["itemCount"] == 0
    assert active_revision(table, around) is None


def test_the_active_revision_is_the_published_one():
    for status, active in ((PUBLISHED, True), (ARCHIVED, False)):
        around, revision = with_state(status, 3)
        (table,) = around.all(LookupTable)

        assert (active_revision(table, around) == revision) is active
        assert response(revision, around)["itemCount"] == 3
