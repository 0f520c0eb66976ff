"""The book of the soak finds every lost, doubled and altered row, and nothing else."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.soak.book import Book, Row

VALUES = st.decimals(0, 1000, places=3).map(str)
ROWS = st.tuples(
    st.sampled_from(("acme", "bolt")),
    st.sampled_from(("2026-09-30T23:59:59Z", "2026-10-01T00:00:00Z")),
    VALUES,
    st.sampled_from(("eu", "us")),
)
BATCHES = st.lists(st.tuples(st.lists(ROWS, min_size=1, max_size=4), st.booleans()), min_size=1)


def filled(batches):
    """A book, and what a store without faults has after it."""
    book, stored = Book(), []
    for number, (rows, acknowledged) in enumerate(batches):
        stored += book.offer(f"b{number}", rows)
        if acknowledged:
            book.acknowledge(f"b{number}")
    return book, stored


def acknowledged_rows(batches, stored):
    names = {f"b{number}" for number, (_, done) in enumerate(batches) if done}
    return [row for row in stored if row.uid.partition(".")[0] in names]


@pytest.mark.long
@given(BATCHES, st.data())
def test_a_row_that_is_stored_twice_is_found(batches, data):
    book, stored = filled(batches)
    twice = data.draw(st.sampled_from(stored))

    [finding] = book.compare([*stored, twice]).findings

    assert finding == f"doubled: {twice.uid}"


@pytest.mark.long
@given(BATCHES, st.data())
def test_a_row_that_was_acknowledged_and_is_missing_is_found(batches, data):
    batches[0] = (batches[0][0], True)
    book, stored = filled(batches)
    lost = data.draw(st.sampled_from(acknowledged_rows(batches, stored)))

    [finding] = book.compare(row for row in stored if row is not lost).findings

    assert finding == f"lost: {lost.uid}"


@pytest.mark.long
@given(BATCHES, st.data())
def test_a_row_with_another_content_is_found_whether_it_was_acknowledged_or_not(batches, data):
    book, stored = filled(batches)
    at = data.draw(st.integers(0, len(stored) - 1))
    member = data.draw(st.sampled_from(Row._fields[1:]))
    stored[at] = stored[at]._replace(**{member: f"{getattr(stored[at], member)}1"})

    [finding] = book.compare(stored).findings

    assert finding.startswith("altered: ")
    assert stored[at].uid.partition(".")[0] in finding


@pytest.mark.long
@given(BATCHES)
def test_rows_that_nobody_sent_are_found(batches):
    book, stored = filled(batches)
    strangers = [stored[0]._replace(uid=uid) for uid in ("elsewhere.0", "b0.99", "b0")]

    found = book.compare([*stored, *strangers[:2]]).findings

    assert found == ["nobody sent elsewhere.0", "nobody sent b0.99"]


@pytest.mark.long
@given(BATCHES, st.data())
def test_what_was_never_acknowledged_may_be_there_or_not(batches, data):
    book, stored = filled(batches)
    must = acknowledged_rows(batches, stored)
    may = [row for row in stored if row not in must and data.draw(st.booleans())]

    found = book.compare([*may, *must])

    assert found.findings == []
    assert (found.rows, found.unacknowledged) == (len(must) + len(may), len(may))
    expected = {}
    for row in [*must, *may]:
        key = (row.account, row.ts[:7])
        expected[key] = expected.get(key, 0) + Decimal(row.value)
    assert {key: value for key, value in found.sums.items() if key in expected} == expected
    assert not any(value for key, value in found.sums.items() if key not in expected)


@pytest.mark.long
@given(BATCHES, st.booleans(), st.booleans())
def test_a_retracted_row_is_gone_or_if_nobody_said_so_perhaps(batches, done, present):
    batches[0] = (batches[0][0], True)
    book, stored = filled(batches)
    row = book.spare("b0")
    book.retract(row, done=done)

    found = book.compare(each for each in stored if present or each != row)

    wrong = [f"not retracted: {row.uid}"] if done and present else []
    assert found.findings == wrong
    total = sum(Decimal(each.value) for each in stored if each != row)
    kept = Decimal(row.value) if present and not done else 0
    assert wrong or sum(found.sums.values()) == total + kept
    assert book.acknowledged() == len(acknowledged_rows(batches, stored)) - done
