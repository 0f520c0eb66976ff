"""Words of strangers: what every database can store, and what becomes of the rest."""

import pytest

from meterlake.model.values.fields import is_storable
from meterlake.model.values.untrusted import storable


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", True),
        ("plain", True),
        ("Größe Ω 😀", True),
        ("a\x00b", False),
        ("Ω\x00", False),
        ("Ω\ud800", False),
        ("\udfff", False),
    ],
)
def test_a_text_is_kept_whole_or_its_signs_that_no_database_has_are_replaced(text, kept):
    assert is_storable(text) is kept
    assert (storable(text) == text) is kept
    assert is_storable(storable(text))
    assert len(storable(text)) == len(text)


def test_no_more_is_kept_than_anybody_reads():
    assert storable("Ω" * 10, 4) == "ΩΩΩΩ"
    # What follows is not looked at.
    assert storable("Ω" * 4 + "\x00", 4) == "ΩΩΩΩ"
