"""Rules of patterns are words; so is a value that came as bytes."""

import re
from pathlib import Path

import pytest

import meterlake
from meterlake.model.configuration.access import ResourceGroup
from meterlake.model.configuration.integrations import IntegrationConfig
from meterlake.model.errors import Invalid, MeterlakeError
from meterlake.model.measurements.mapping import Mapping
from meterlake.model.measurements.receipt import UploadRequest
from meterlake.model.values.ids import CODE_PATTERN
from meterlake.model.values.patterns import PATTERN_RULES, describe_mismatch
from meterlake.model.values.problems import read

# A pattern of a field, written where it is used or under a name in the same file.
_WRITTEN = re.compile(r'pattern=r?"(.+?)"[,)]|^_\w+: Final = r"(\^.+\$)"$', re.MULTILINE)


def patterns_of_fields():
    """The texts of all patterns that fields of models and settings have."""
    files = [
        each for each in Path(meterlake.__file__).parent.rglob("*.py") if each.name != "patterns.py"
    ]
    texts = [text for text in map(Path.read_text, files) if "pattern=" in text]
    return {a or b for text in texts for a, b in _WRITTEN.findall(text)}


def test_every_pattern_has_words():
    found = patterns_of_fields()

    assert len(found) > 8
    assert found <= set(PATTERN_RULES) - {CODE_PATTERN}


def test_words_are_no_pattern():
    assert [words for words in PATTERN_RULES.values() if re.search(r"[\\\[\]^]", words)] == []


@pytest.mark.parametrize(
    ("kind", "document", "sentence"),
    [
        (
            UploadRequest,
            {"fileName": "a", "contentType": " x", "contentLength": 3},
            "contentType: ' x' is not allowed: it must be made of printable ASCII characters, with no space at the ends",
        ),
        (
            ResourceGroup,
            {"type": "A b", "name": "x"},
            "type: 'A b' is not allowed: it must be made of lower-case letters a to z and digits, beginning with a letter",
        ),
        (
            IntegrationConfig,
            {"entityType": "A b", "destination": "x"},
            "entityType: 'A b' is not allowed: it must be made of letters A to Z, digits, dashes and underscores",
        ),
        (
            Mapping,
            {
                "name": "x",
                "delimiter": "aa",
                "account": {"column": "a"},
                "ts": {"column": "t"},
                "measurements": [{"meter": {"value": "m"}, "fields": {}}],
            },
            "delimiter: 'aa' is not allowed: it must be one ASCII character",
        ),
    ],
)
def test_a_refused_text_names_the_rule_in_words(kind, document, sentence):
    with pytest.raises(MeterlakeError) as caught:
        read(kind, document)
    assert sentence in str(caught.value)


def test_a_pattern_without_words_is_shown():
    detail = {"type": "string_pattern_mismatch", "msg": "…", "ctx": {"pattern": "^x$"}}
    assert describe_mismatch(detail) == "it must be text that matches ^x$"


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_bytes_are_shown_as_text(kind):
    assert (
        str(Invalid("body", kind(b"a\xff"), "it must be JSON"))
        == "body: 'a\ufffd' is not allowed: it must be JSON"
    )
