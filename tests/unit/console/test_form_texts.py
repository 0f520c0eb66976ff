"""Between documents and the texts of forms: what a form shows of an entity, it says of it again."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.api.openapi.examples import example_id, request_example
from meterlake.console.shell.form_fields import FieldKind, fields_of_body, fields_of_resource
from meterlake.console.shell.form_texts import document_of, local_text, texts_of
from meterlake.console.shell.numbers import typed_number
from meterlake.model.errors import Invalid
from meterlake.model.resources import RESOURCES
from meterlake.model.values import wire

ZONE = "Europe/Berlin"
WRITTEN = [each for each in RESOURCES if each.verbs & {"create", "update"} and each.area != "state"]


@pytest.mark.parametrize("resource", WRITTEN, ids=lambda each: each.name)
def test_a_form_that_nobody_touched_changes_nothing(resource):
    members = {
        name: "plan" if name == "type" else example_id("Example", name)
        for name in resource.path_members
    }
    document = {**wire.loads(wire.dumps(request_example(resource))), **members}
    fields = fields_of_resource(resource.name)
    again = document_of(fields, texts_of(fields, document, ZONE), ZONE, members)
    found = resource.entity.from_wire(wire.loads(wire.dumps(again)))

    assert found == resource.entity.from_wire(document)


def test_every_field_that_a_resource_takes_has_a_way_to_fill_it_in():
    kinds = {
        (resource.name, each.name)
        for resource in WRITTEN
        for each in fields_of_resource(resource.name)
        if each.kind is FieldKind.JSON
    }

    assert kinds <= {("integrationConfigs", "configData")}


def test_the_body_of_any_operation_has_a_form():
    fields = {each.name: each for each in fields_of_body("BillJobRequest")}

    assert fields["billDate"].kind is FieldKind.DAY
    assert fields["accountIds"].kind is FieldKind.LINES


def test_a_row_without_text_is_none_and_the_others_keep_their_order():
    fields = fields_of_resource("pricings")
    texts = {
        "pricingBands.0.lowerLimit": ["0"],
        "pricingBands.0.unitPrice": ["0.50"],
        "pricingBands.1.lowerLimit": [""],
        "pricingBands.10.lowerLimit": ["100"],
        "pricingBands.2.lowerLimit": ["50"],
    }
    found = document_of(fields, texts, ZONE, {})

    assert [each["lowerLimit"] for each in found["pricingBands"]] == [0, 50, 100]
    assert found["pricingBands"][0]["unitPrice"] == Decimal("0.50")


def test_what_is_no_number_goes_to_the_api_as_it_was_typed():
    fields = fields_of_resource("planTemplates")
    found = document_of(fields, {"standingCharge": ["1.5.0"]}, ZONE, {})

    assert found["standingCharge"] == "1.5.0"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        *(("1234.5", "1234.5"), ("1,50", "1.50"), ("-1,5", "-1.5"), ("1.234,56", "1234.56")),
        *(("1,234.56", "1234.56"), ("1.234.567,8", "1234567.8"), ("1,2345", "1.2345")),
        *(("1 234.56", "1234.56"), ("1\u00a0234,56", "1234.56"), ("1'234.50", "1234.50")),
        *(("0,123", "0.123"), ("+7", "7"), (" 12.50 ", "12.50"), ("1.250", "1.250")),
    ],
)
def test_a_number_is_read_as_people_write_it(typed, meant):
    assert typed_number("amount", typed) == Decimal(meant)


@pytest.mark.parametrize(
    "typed", ["", "1e3", "NaN", "Infinity", "0x10", "1,2,3", "1.2.3", "1,23.4", "٣", "12 34", "--1"]
)
def test_what_is_no_number_stays_a_text(typed):
    assert typed_number("amount", typed) == typed


@pytest.mark.parametrize("typed", ["1,234", "-12,500", "999,000"])
@pytest.mark.parametrize("decimal", [".", ","])
def test_a_number_that_may_mean_two_is_refused_with_both(typed, decimal):
    other = typed if decimal == "." else typed.replace(",", ".")
    plain = typed.replace(",", decimal)
    with pytest.raises(Invalid, match="it may mean") as refused:
        typed_number("amount", other, decimal)

    assert plain in str(refused.value)
    assert typed.replace(",", "") in str(refused.value)
    assert typed_number("amount", plain, decimal) == Decimal(typed.replace(",", "."))


def test_a_form_shows_numbers_as_it_reads_them():
    fields = fields_of_resource("pricings")
    document = {
        "pricingBands": [{"lowerLimit": 0, "unitPrice": Decimal("12.125"), "fixedPrice": 0}]
    }
    texts = texts_of(fields, document, ZONE, ",")

    assert texts["pricingBands.0.unitPrice"] == ["12,125"]
    [band] = document_of(fields, texts, ZONE, {}, ",")["pricingBands"]
    assert band["unitPrice"] == Decimal("12.125")


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, places=4, min_value=-(10**12), max_value=10**12
    )
)
def test_a_number_of_four_decimals_is_read_back_in_either_style(number):
    english, german = f"{number:,.4f}", f"{number:,.4f}".translate(str.maketrans(",.", ".,"))

    assert typed_number("amount", english, ".") == typed_number("amount", german, ",") == number


@pytest.mark.parametrize(
    ("typed", "instant"),
    [
        ("2026-10-01T00:00", "2026-09-30T22:00:00Z"),
        ("2026-10-01", "2026-09-30T22:00:00Z"),
        ("2026-12-01T00:00:30", "2026-11-30T23:00:30Z"),
        ("2026-10-01T00:00:00Z", "2026-10-01T00:00:00Z"),
        ("soon", "soon"),
    ],
)
def test_an_instant_is_typed_by_the_clocks_of_the_organization(typed, instant):
    fields = fields_of_resource("pricings")
    found = document_of(fields, {"startDate": [typed]}, ZONE, {})

    assert found["startDate"] == instant


def test_an_instant_that_nobody_touched_stays_to_the_microsecond_and_in_the_repeated_hour():
    fields = fields_of_resource("pricings")
    for instant in ("2026-10-25T01:30:00Z", "2026-10-25T00:30:00Z", "2026-01-01T00:00:00.123456Z"):
        texts = {"startDate": [local_text(instant, ZONE)]}
        assert document_of(fields, texts, ZONE, {"startDate": instant})["startDate"] == instant


def test_a_field_that_the_form_leaves_out_stays():
    fields = fields_of_resource("plans", ("ordinal",))
    found = document_of(fields, {"name": ["Basic"]}, ZONE, {"ordinal": 3, "name": "Old"})

    assert (found["ordinal"], found["name"]) == (3, "Basic")
