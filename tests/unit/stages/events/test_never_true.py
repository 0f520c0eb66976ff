"""Calculations of notifications that are true of no event."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.calculation import CalculationError, parse
from meterlake.model.values.money import exact
from meterlake.stages.events.condition import EventValues, compile_condition, holds
from meterlake.stages.events.never_true import why_never_true

FIELDS = {
    "new.status": "string",
    "new.total": "double",
    "new.locked": "boolean",
    "new.note": "string",
}
WORDS = {"new.status": {"PENDING", "APPROVED"}}


def why(text):
    return why_never_true(parse(text), FIELDS, WORDS.get)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("false", "false is not true of it"),
        ("1 == 2", "1 == 2 is not true"),
        ("1 / 0 == 1", "is not true"),
        ('old.status == "PENDING"', "the event has no old.status"),
        ("new.total > old.total", "no old.total"),
        ("new.total - old.total > 5", "no old.total"),
        ("upper(old.note) == new.note", "no old.note"),
        ("old.locked", "no old.locked"),
        ('IN(old.status, "PENDING", "APPROVED")', "no old.status"),
        ("old.status != null", "old.status != null is not true"),
        ("new.locked AND 1 == 2", "1 == 2"),
        ("new.locked AND (new.total > 1 AND false)", "false"),
        ("1 == 2 OR old.total > 1", "1 == 2"),
        ("new.locked ? false : 1 == 2", "false"),
        ('new.status == "APROVED"', "new.status is never 'APROVED': did you mean APPROVED?"),
        ('"PAID" == new.status', "one of APPROVED, PENDING"),
        ("new.total > 10 AND new.total < 5", "what is said of new.total"),
        ("10 < new.total AND new.total <= 10", "new.total"),
        ("new.total == 1 AND new.total != 1", "new.total"),
        ('new.note == "a" AND new.note == "b"', "new.note"),
        ('new.note == "a" AND new.note != "a"', "new.note"),
        ("new.total == null AND new.total > 1", "new.total"),
    ],
)
def test_what_is_never_true_says_why(text, reason):
    assert reason in (why(text) or "")


@pytest.mark.parametrize(
    "text",
    [
        "new.total > 1",
        "true",
        "old.total == null",
        "new.status == null",
        "new.total > 1 AND old.total == null",
        "isnull(old.total, 0) < new.total",
        "(new.total > old.total) == false",
        "IN(old.status, null)",
        "old.total > 1 OR new.locked",
        "new.locked ? old.locked : new.total > 1",
        'new.status == "PENDING" OR new.status == "APROVED"',
        'new.status != "APROVED"',
        "new.total > 5 AND new.total < 6",
        "new.total >= 5 AND new.total <= 5",
        "new.total != 5 AND new.total != 6",
        'new.note == "2026-10-01" AND new.note == "2026-10-01T00:00:00Z"',
        'new.note == upper("a") AND new.note == "A"',
        "new.total != null AND new.total > 1",
    ],
)
def test_what_may_be_true_is_let_pass(text):
    assert why(text) is None


NUMBERS = st.sampled_from(
    ["0", "1", "2", "new.total", "old.total", "new.total + 1", "1 - old.total"]
)
TEXTS = st.sampled_from(['"PENDING"', '"x"', "new.status", "old.status", "null", "upper(new.note)"])
ATOMS = st.one_of(
    st.sampled_from(["true", "false", "new.locked", "old.locked", "IN(new.total, 1, old.total)"]),
    st.builds("{} {} {}".format, NUMBERS, st.sampled_from(["==", "<", ">=", "!="]), NUMBERS),
    st.builds("{} {} {}".format, TEXTS, st.sampled_from(["==", "!="]), TEXTS),
)
CONDITIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("({} == {})".format, inner, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
    ),
    max_leaves=5,
)
EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(sorted(WORDS["new.status"])),
        "total": st.integers(-1, 3),
        "locked": st.booleans(),
        "note": st.sampled_from(["x", "PENDING"]),
    },
)


@given(text=CONDITIONS, events=st.lists(EVENTS, min_size=8, max_size=8))
def test_what_is_said_to_be_never_true_is_true_of_no_event(text, events):
    if why(text) is None:
        return
    condition = compile_condition(parse(text))
    for event in events:
        # Without an answer nothing goes out, either.
        with exact(), suppress(CalculationError):
            assert not holds(condition, EventValues({"newDto": event})), (text, event)
