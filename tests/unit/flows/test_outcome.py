"""Artifacts show what people wrote as they wrote it, and a failed run says what is missing."""

import pickle

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
    from flows.outcome import Incomplete

    error = Incomplete([f"org {number}" for number in range(7)])

    assert str(error) == "org 0; org 1; org 2; org 3; org 4; and 2 more"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_run_without_work_says_so() -> None:
    from flows.outcome import document

    assert document([], [], []) == "There was nothing to do."


def test_a_long_artifact_is_cut_and_says_so() -> None:
    from flows.outcome import ROWS_MAX, document

    text = document([{"organization": "acme"}], [], [{"file": "a"}] * (ROWS_MAX + 1))

    assert text.count("| a |") == ROWS_MAX
    assert text.endswith("Only the first 1,000 are shown here.")
