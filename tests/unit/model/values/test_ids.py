"""Identifiers in their canonical form."""

import uuid

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meterlake.model.values.ids import is_id

ID = "6f4c8a8e-2d0b-5b8e-9c55-3f1a7f0b9a11"


@given(st.uuids())
def test_every_uuid_is_an_id(made):
    """In letters of either case."""
    assert is_id(str(made))
    assert is_id(str(made).upper())


@given(st.text(alphabet="0123456789abcdefABCDEF-{} _\n\u0660\uff11", max_size=40))
@example("{" + ID + "}")
@example("urn:uuid:" + ID)
@example(ID.replace("-", ""))
@example(ID + "\n")
@example(ID.replace("6", "\uff16"))
@example(ID.replace("-", "_"))
def test_only_the_canonical_form_is_an_id(text):
    """What Python's own reader of UUIDs gives back as it was."""
    try:
        canonical = str(uuid.UUID(text)) == text.lower()
    except ValueError:
        canonical = False

    assert is_id(text) is canonical


@pytest.mark.parametrize("text", ["", "1", "acme", ID[:-1], ID + "0"])
def test_other_texts_are_none(text):
    """Codes and ids of other lengths."""
    assert not is_id(text)
