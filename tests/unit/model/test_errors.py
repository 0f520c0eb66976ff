import pickle
from datetime import UTC, datetime
from decimal import Decimal
from inspect import Parameter, signature
from pathlib import Path
from string import Formatter

import pytest

from meterlake.model.errors import Invalid, MeterlakeError, Required, Unavailable
from meterlake.model.measurements.rejection import Reason


def tree(root=MeterlakeError):
    yield root
    for child in root.__subclasses__():
        yield from tree(child)


ERRORS = [error for error in tree() if error.__module__.startswith("meterlake.")]


def example(error):
    """An error made of one word per argument of its constructor."""
    parameters = signature(error.__init__).parameters.values()
    words = [p.name for p in parameters if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    return error(*words[1:] or ["what happened"])


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_survives_the_way_between_processes(error):
    made = example(error)

    copy = pickle.loads(pickle.dumps(made))

    assert (type(copy), str(copy), copy.args) == (type(made), str(made), made.args)


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_says_in_its_docstring_when_it_happens(error):
    assert error.__dict__["__doc__"]


@pytest.mark.parametrize("error", ERRORS)
def test_a_sentence_uses_only_what_the_constructor_takes(error):
    places = {int(name) for _, name, _, _ in Formatter().parse(error.text) if name}

    assert places <= set(range(len(example(error).args)))


@pytest.mark.parametrize("error", ERRORS)
def test_only_a_failing_world_is_worth_a_retry(error):
    assert (error.status == 503) is issubclass(error, Unavailable)


def test_numbers_stand_in_sentences_as_plain_digits():
    assert (
        str(Invalid("price", Decimal("1.50"), "it must be 0 or more"))
        == "price: 1.50 is not allowed: it must be 0 or more"
    )


def test_long_values_are_cut():
    assert len(str(Invalid("name", "x" * 10_000, "shorter"))) < 150


def test_what_is_absent_has_no_value_in_the_sentence():
    assert str(Required("code")) == "code is required"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (False, "false"),
        (1, "1"),
        ("it's", '"it\'s"'),
        (Path("/a/b.csv"), "'/a/b.csv'"),
        (Reason.INVALID_UID, "'InvalidUid'"),
        (datetime(2026, 10, 1, tzinfo=UTC), "'2026-10-01 00:00:00+00:00'"),
        (("a", None, {"b": [True, Decimal("1.50")]}), "['a', null, {'b': [true, 1.50]}]"),
    ],
)
def test_a_value_is_shown_as_json_knows_it(value, shown):
    assert str(Invalid("x", value, "y")) == f"x: {shown} is not allowed: y"
