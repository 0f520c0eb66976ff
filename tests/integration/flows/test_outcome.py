"""Artifacts show what people wrote as they wrote it, and a failed run says what is missing."""

import pickle
from decimal import Decimal

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("plain text, 1.5", "plain text, 1.5"),
        ("<script>alert(1)</script>", r"\<script\>alert(1)\</script\>"),
        ("[click](https://evil.example)", r"\[click\](https://evil.example)"),
        ("a_b*c`d|e", r"a\_b\*c\`d\|e"),
        ("two\n# lines", r"two \# lines"),
        ("back\\slash", r"back\\slash"),
    ],
)
def test_text_in_artifacts_is_not_markup(text: str, markdown: str) -> None:
    from flows.outcome import plain

    assert plain(text) == markdown


def test_what_is_incomplete_names_the_first_few_and_survives_pickling() -> None:
    from flows.incomplete import Incomplete

    error = Incomplete([f"org {number}" for number in range(7)])

    assert str(error) == "org 0; org 1; org 2; org 3; org 4; and 2 more"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_run_without_work_says_so() -> None:
    from flows.outcome import document

    assert document([], [], {}) == "There was nothing to do."


def test_a_long_artifact_is_cut_and_says_so() -> None:
    from flows.outcome import ROWS_MAX, document

    files = [{"file": "a"}] * (ROWS_MAX + 1)
    text = document([{"organization": "acme"}], ["no"] * (ROWS_MAX + 2), {"Files": files})

    assert text.count("| a |") == ROWS_MAX
    assert text.endswith("Only the first 1,000 of 1,001 are shown here.")
    assert "Only the first 1,000 of 1,002 are shown here." in text


def test_tables_have_titles_and_those_without_rows_are_left_out() -> None:
    from flows.outcome import document

    tables = {"Unpriced usage": [{"account": "bolt"}], "Rejected rows": []}
    text = document([{"organization": "acme"}], [], tables)

    assert "## Unpriced usage\n\n| account |" in text
    assert "Rejected" not in text
    assert "Details" not in text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Decimal("80875.000000000000"), "80,875"),
        (Decimal("80.875000"), "80.875"),
        (Decimal("1E+3"), "1,000"),
        (Decimal("0.000"), "0"),
        (Decimal(100), "100"),
        (1234567, "1,234,567"),
        ("10.500", "10.500"),
        (None, ""),
    ],
)
def test_numbers_are_shown_without_trailing_zeros(value: object, shown: str) -> None:
    from flows.outcome import table

    *_, line = table([{"quantity": value}]).splitlines()
    assert line == f"| {shown} |"


def test_columns_of_numbers_are_at_the_right() -> None:
    from flows.outcome import table

    rows = [{"before": None, "name": "a"}, {"before": Decimal("1.5"), "name": "b"}]
    assert table(rows).splitlines()[1] == "| ---: | --- |"
