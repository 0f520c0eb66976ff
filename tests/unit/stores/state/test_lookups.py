from datetime import timedelta

import pytest

from meterlake.model.catalog.lookups import LookupTableDataJobStatus, LookupTableDataJobType
from meterlake.model.errors import NotFound
from meterlake.model.values.ids import derived_id
from meterlake.stores.state import lookups
from meterlake.stores.state.core.pages import Page

FIRST, SECOND = derived_id("first"), derived_id("second")


def written(state, org, revision, found):
    with state.transaction(org, "a") as transaction:
        lookups.put(transaction, revision, found)


def read(state, org, revision, limit=2000):
    with state.reading(org) as reader:
        assert lookups.count(reader, revision) >= len(lookups.items(reader, revision, limit))
        return dict(lookups.items(reader, revision, limit))


def test_items_are_written_and_replaced_by_their_keys(state, org):
    written(state, org, FIRST, {"a": {"v": 1}, "b": {"v": 2}})
    written(state, org, FIRST, {"b": {"v": 3}, "c": {}})
    written(state, org, SECOND, {"a": {"v": 9}})

    assert read(state, org, FIRST) == {"a": {"v": 1}, "b": {"v": 3}, "c": {}}
    assert list(read(state, org, FIRST, limit=2)) == ["a", "b"]
    with state.reading(org) as reader:
        assert lookups.item(reader, FIRST, "b") == {"v": 3}
        assert lookups.item(reader, FIRST, "d") is None


def test_many_items_are_written_at_once(state, org):
    found = {f"{number:04}": {"v": number} for number in range(2000)}
    written(state, org, FIRST, found)
    written(state, org, FIRST, found)

    assert read(state, org, FIRST) == found


def test_items_are_removed_one_by_one_and_all_together(state, org):
    written(state, org, FIRST, {key: {} for key in "abc"})
    written(state, org, SECOND, {"a": {}})
    with state.transaction(org, "a") as transaction:
        assert lookups.remove(transaction, FIRST, ["a", "x"]) == 1
        assert lookups.remove(transaction, FIRST, []) == 0
    assert set(read(state, org, FIRST)) == {"b", "c"}

    with state.transaction(org, "a") as transaction:
        lookups.clear(transaction, FIRST)
    assert read(state, org, FIRST) == {}
    assert read(state, org, SECOND) == {"a": {}}


def test_a_copy_replaces_items_of_the_same_keys_only(state, org):
    written(state, org, FIRST, {"a": {"v": 1}, "b": {"v": 2}})
    written(state, org, SECOND, {"b": {"v": 8}, "c": {"v": 9}})
    with state.transaction(org, "a") as transaction:
        lookups.copy(transaction, FIRST, SECOND)

    assert read(state, org, SECOND) == {"a": {"v": 1}, "b": {"v": 2}, "c": {"v": 9}}
    assert read(state, org, FIRST) == {"a": {"v": 1}, "b": {"v": 2}}


def test_a_transaction_that_fails_writes_nothing(state, org):
    def fails():
        with state.transaction(org, "a") as transaction:
            lookups.put(transaction, FIRST, {"a": {}})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()

    assert read(state, org, FIRST) == {}


def test_jobs_are_listed_newest_first_and_forgotten(state, org, clock):
    made = []
    for _ in range(3):
        with state.transaction(org, "a") as transaction:
            job = lookups.add_job(transaction, FIRST, LookupTableDataJobType.COPY, SECOND)
            made.append(job)
        clock.advance(seconds=1)

    with state.reading(org) as reader:
        page, token = lookups.jobs(reader, FIRST, Page(2))
        rest, end = lookups.jobs(reader, FIRST, Page(2, token))
        assert [*page, *rest] == made[::-1]
        assert end is None
        assert page[0].status is LookupTableDataJobStatus.SUCCEEDED
        assert page[0].created - page[1].created == timedelta(seconds=1)
        with pytest.raises(NotFound):
            lookups.job(reader, SECOND, made[0].id)
    with state.transaction(org, "a") as transaction:
        assert lookups.delete_job(transaction, FIRST, made[0].id) == made[0]
        with pytest.raises(NotFound):
            lookups.delete_job(transaction, FIRST, made[0].id)
        lookups.delete_jobs(transaction, FIRST)
        assert lookups.jobs(transaction, FIRST, Page(2)) == ([], None)
