"""The reference of configuration files: the page, the JSON Schema, and the examples in both."""

import copy
import json
from functools import cache
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

import sample_data
from meterlake.cli.reference import with_reference
from meterlake.model.configuration.examples import EXAMPLES
from meterlake.model.errors import Invalid
from meterlake.model.resources import CONFIG, RESOURCES
from meterlake.model.resources.proposal import Document
from meterlake.model.values import wire
from meterlake.model.values.documents import parse
from meterlake.stages.config.describe import describe_all
from meterlake.stages.config.reference.document import configuration_document, rule_text
from meterlake.stages.config.reference.schema import configuration_schema
from tests.integration.pipeline.config.test_apply_kinds import CONTENT
from tests.organizations import DOCUMENTS, after

PAGE = Path(__file__).parents[4] / "docs" / "configuration.md"
KINDS = [each for each in RESOURCES if each.area == CONFIG]


@cache
def validator():
    schema = json.loads(wire.dumps(configuration_schema()))
    Draft7Validator.check_schema(schema)
    return Draft7Validator(schema)


def mistakes(content):
    found = validator().iter_errors(json.loads(wire.dumps(content)))
    return [f"{'.'.join(map(str, each.path))}: {each.message}" for each in found]


def examples():
    return {
        each.name: EXAMPLES[each.name] if each.singleton else [EXAMPLES[each.name]]
        for each in KINDS
    }


def test_the_page_is_that_of_the_declarations():
    assert PAGE.read_text("utf-8") == with_reference(PAGE.read_text("utf-8"))


def test_every_kind_has_a_section_an_example_and_a_link():
    page = configuration_document()

    for each in KINDS:
        assert f"\n### {each.name}\n" in page
        assert f"[{each.name}](#{each.name.lower()})" in page
        assert f"```yaml\n{each.name}:\n" in page
    assert set(EXAMPLES) == {each.name for each in RESOURCES if each.area != "state"}


def test_every_field_of_files_means_something_and_every_rule_says_what_it_demands():
    definitions = configuration_schema()["definitions"]

    assert not [
        f"{kind}.{name}"
        for kind, schema in definitions.items()
        for name, field in schema.get("properties", {}).items()
        if not field.get("description")
    ]
    assert not [
        f"{each.name}: {rule}" for each in RESOURCES for rule in each.rules if not rule_text(rule)
    ]


def test_a_row_says_type_rule_default_and_meaning():
    page = configuration_document()

    for row in (
        (
            "| `dataFields[].category` | text | **required**; one of `WHO`, `WHERE`, `WHAT`, `OTHER`,"
            " `METADATA`, `MEASURE`, `INCOME`, `COST` |  |"
        ),
        "| `planTemplateId` | text | **required** |  | The code or `id` of an entity of `planTemplates`. |",
        '| `timezone` | text | 1 to 80 characters | `"UTC"` | The time zone of its days and months. |',
        "| `daysBeforeBillDue` | whole number | more than 0; at most 36525 |",
        "| `endDate` | instant or date |  |  | The end, exclusive; absent for ever. |",
    ):
        assert row in page, row
    assert "- A pricing belongs to a plan or to a template.\n" in page


def test_all_examples_together_are_a_configuration():
    exported = describe_all(after([Document("examples", copy.deepcopy(examples()))]))

    assert set(exported) == set(examples())
    assert mistakes(examples()) == []
    assert mistakes(exported) == []


@pytest.mark.parametrize(
    "path", sorted(sample_data.CONFIGURATION.glob("*.yaml")), ids=lambda p: p.name
)
def test_the_sample_follows_the_schema(path):
    assert mistakes(parse(path.name, path.read_bytes())) == []


def test_what_tests_apply_follows_the_schema():
    assert mistakes(DOCUMENTS) == []
    assert mistakes(CONTENT) == []
    assert mistakes({"$schema": "meterlake.schema.json", "accounts": None, "features": None}) == []
    nulls = {**DOCUMENTS["accounts"][0], "currency": None, "address": {"country": None}}
    assert mistakes({"accounts": [nulls]}) == []


def wrong(name, /, **changes):
    content = copy.deepcopy(examples())
    entity = content[name] if isinstance(content[name], dict) else content[name][0]
    for field, value in changes.items():
        if value is None:
            del entity[field]
        else:
            entity[field] = value
    return content


@pytest.mark.parametrize(
    "content",
    [
        {"acounts": []},
        {"accounts": {}},
        {"organizationConfig": []},
        wrong("accounts", nmae="Acme"),
        wrong("accounts", name=None),
        wrong("accounts", name=""),
        wrong("accounts", name=5),
        wrong("accounts", code=" acme"),
        wrong("accounts", code="a" * 81),
        wrong("accounts", address={"street": "Lindenallee"}),
        wrong("accounts", daysBeforeBillDue=0),
        wrong("accounts", daysBeforeBillDue=True),
        wrong("aggregations", code="1gb"),
        wrong("aggregations", aggregation="AVERAGE"),
        wrong("aggregations", quantityPerUnit="1"),
        wrong("aggregations", quantityPerUnit=0),
        wrong("meters", dataFields=[]),
        wrong("meters", dataFields=None),
        wrong("plans", planTemplateId=5),
        wrong("pricings", startDate="2026-1-1"),
        wrong("pricings", startDate="yesterday"),
        wrong("pricings", cumulative="yes"),
        wrong("pricings", pricingBands=[{"lowerLimit": -1, "fixedPrice": 0, "unitPrice": 1}]),
        wrong("pricings", pricingBands=[{"lowerLimit": 0, "unitPrice": 1}]),
        wrong("organizationConfig", currencyConversions=[{"from": "USD", "to": "EUR", "rate": 1}]),
        wrong("webhooks", credentials={"type": "HTTP_BASIC", "apiKey": "a", "secret": "b"}),
        wrong("commitments", feeDates=[{"date": "2026-01-31"}]),
    ],
)
def test_what_apply_refuses_for_its_form_the_schema_refuses_too(content):
    assert mistakes(content)
    with pytest.raises(Invalid):
        after([Document("wrong", content)])


def test_a_mistake_is_found_where_it_is():
    [mistake] = mistakes(
        wrong("meters", dataFields=[{"category": "SIZE", "code": "a", "name": "A"}])
    )

    assert mistake.startswith("meters.0.dataFields.0.category: 'SIZE' is not one of")
