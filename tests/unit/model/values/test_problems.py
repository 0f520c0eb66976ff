import re
from pathlib import Path

import pytest
from pydantic import ValidationError

import meterlake
from meterlake.model.catalog.catalog import Meter
from meterlake.model.catalog.plans import Pricing
from meterlake.model.configuration.access import ResourceGroup
from meterlake.model.configuration.integrations import IntegrationConfig
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Invalid, InvalidConfiguration, MeterlakeError, Required
from meterlake.model.measurements.mapping import Mapping
from meterlake.model.measurements.receipt import UploadRequest
from meterlake.model.values.entity import Entity
from meterlake.model.values.ids import CODE_PATTERN
from meterlake.model.values.problems import (
    PATTERN_RULES,
    describe_mismatch,
    locate_error,
    path,
    problems,
    read,
    refuse,
    unknown_names,
)

GOOD = {"code": "acme", "name": "Acme", "emailAddress": "a@b.example"}
# A pattern of a field, written where it is used or under a name in the same file.
_WRITTEN = re.compile(r'pattern=r?"(.+?)"[,)]|^_\w+: Final = r"(\^.+\$)"$', re.MULTILINE)


def sentences(kind: type[Entity], document):
    with pytest.raises(ValidationError) as caught:
        kind.from_wire(document)
    return [str(problem) for problem in problems(caught.value)]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"name": None}, "name is required"),
        (
            {"name": 3},
            "name: 3 is not allowed: it must be text (in quotes, if it looks like something else)",
        ),
        ({"name": ""}, "name: '' is not allowed: it must have at least 1 character"),
        (
            {"purchaseOrderNumber": "x" * 101},
            f"purchaseOrderNumber: '{'x' * 79}… is not allowed: it must have at most 100 characters",
        ),
        ({"emailAddress": "x"}, "emailAddress: 'x' is not allowed: it must be an e-mail address"),
        ({"daysBeforeBillDue": 0}, "daysBeforeBillDue: 0 is not allowed: it must be more than 0"),
        ({"address": "Rome"}, "address: 'Rome' is not allowed: it must be a map of fields"),
        (
            {"address": {"country": 1}},
            "address.country: 1 is not allowed: it must be text (in quotes, if it looks like something else)",
        ),
        ({"customFields": []}, "customFields: [] is not allowed: it must be a map"),
        (
            {"customFields": {"a": True}},
            "customFields.a: true is not allowed: it must be text or a number",
        ),
        (
            {"creditApplicationOrder": ["CASH"]},
            "creditApplicationOrder[0]: 'CASH' is not allowed: it must be one of 'PREPAYMENT' or 'BALANCE'",
        ),
        (
            {"creditApplicationOrder": "CASH"},
            "creditApplicationOrder: 'CASH' is not allowed: it must be a list",
        ),
        (
            {"billEpoch": "soon"},
            "billEpoch: 'soon' is not allowed: it must be a date such as 2026-10-01",
        ),
    ],
)
def test_a_broken_rule_names_field_value_and_rule(fields, sentence):
    assert sentences(Account, GOOD | fields) == [sentence]


def test_all_broken_rules_are_told():
    assert len(sentences(Account, {})) == 3


def test_an_attribute_name_is_no_wire_name():
    assert sentences(Account, GOOD | {"emailAddress": None, "email_address": "a@b.example"}) == [
        "emailAddress is required"
    ]


def test_places_are_written_as_in_the_wire():
    assert path("pricingBands", 0, "unitPrice") == "pricingBands[0].unitPrice"


@pytest.mark.parametrize("error", [Invalid("name", 1, "text"), Required("name")])
def test_a_located_error_is_the_same_error_at_its_place(error):
    moved = locate_error("a.yaml: accounts[3]", error)

    assert type(moved) is type(error)
    assert str(moved) == f"a.yaml: accounts[3].{error}"


def test_nothing_wrong_is_not_refused():
    refuse([])


def test_one_problem_is_raised_as_it_is():
    problem = Required("code")

    with pytest.raises(Required) as caught:
        refuse([problem])

    assert caught.value is problem


def test_several_problems_are_told_together_and_the_rest_is_counted():
    with pytest.raises(InvalidConfiguration) as caught:
        refuse([Required(f"f{n}") for n in range(7)])

    assert str(caught.value) == (
        "7 problems: f0 is required; f1 is required; f2 is required; f3 is required;"
        " f4 is required; and 2 more"
    )


def test_names_that_mean_nothing_are_found_at_every_depth():
    document = {
        **GOOD,
        "colour": "red",
        "address": {"street": "x", "country": "IT"},
        "customFields": {"any": "thing"},
    }

    assert places(Account, document) == ["colour", "address.street"]
    bands = {"pricingBands": [{"lowerLimit": 0}, {"upperLimit": 5}]}
    assert places(Pricing, bands) == ["pricingBands[1].upperLimit"]
    assert places(Meter, {"dataFields": "none"}) == []


def places(kind, document):
    return [each.place for each in unknown_names(kind, document)]


def test_a_name_that_is_there_is_not_what_another_one_means():
    [unknown] = unknown_names(Account, {**GOOD, "nmae": "Acme"})
    assert "did you mean" not in str(unknown.error("accounts[0]"))
    del (document := {**GOOD, "nmae": "Acme"})["name"]
    [unknown] = unknown_names(Account, document)
    assert "did you mean 'name'?" in str(unknown.error("accounts[0]"))


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
