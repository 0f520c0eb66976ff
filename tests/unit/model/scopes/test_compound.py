"""What calculations of compound aggregations may name, and what these names are worth."""

import pytest

from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Product
from meterlake.model.configuration.organization import CustomFields
from meterlake.model.errors import Invalid
from meterlake.model.scopes.compound import CompoundScope
from tests.rule_world import AGGREGATION, COMPOUND, market

FIELDS = {
    "organization": {"factor": 2},
    "account": {"rate": 3, "name": "x"},
    "product": {"share": 5},
    "meter": {"price": 7},
    "aggregation": {"weight": 11},
    "compoundAggregation": {"base": 13},
    "plan": {"tier": 1},
    "contract": {"level": 17},
}


def world():
    return market().put(CustomFields, "2", **FIELDS)


def saved(calculation, made=None, **fields):
    made = made or world()
    return made.put(
        CompoundAggregation, "c", **COMPOUND, code="c", calculation=calculation, **fields
    )


@pytest.mark.parametrize(
    ("calculation", "sentence"),
    [
        (
            "1 + aggregation.call_gb",
            r"column 5: .*not the code of an existing.*aggregation.calls_gb",
        ),
        ("aggregation.nothing_like_it", "column 1: `aggregation.nothing_like_it` is not the code"),
        ("aggregation", "unknown name `aggregation`"),
        ("gb * 2", "column 1: unknown name `gb`"),
        ("aggregation.calls_gb.more", "unknown name"),
        ('aggregation.calls_gb + "1"', r"column 24: .*needs number, not text"),
        ("aggregation.calls_gb > 1", "the result needs number, not boolean"),
        ('"text"', "the result needs number, not text"),
        ("customFields.account.name * 2", r"needs number, not text; did you mean toNumber"),
        ("customFields.account.rat", r"did you mean customFields.account.rate"),
        ("customFields.acount.rate", r"not of `acount`; did you mean account"),
        ("customFields.planGroup.tier", r"custom fields are those of .*, not of `planGroup`"),
        ("customFields.accountPlan.tier", "unknown name `customFields.accountPlan.tier`"),
        ("customFields.product.share", r"need a compound aggregation of a product.*global"),
        ('lookup("t", "f", 1)', "column 1: lookup is for derived fields"),
        ("1 +", "column 4"),
    ],
)
def test_what_cannot_be_calculated_is_refused_with_its_place(calculation, sentence):
    with pytest.raises(Invalid, match=f"calculation.*{sentence}"):
        saved(calculation)


def test_a_compound_aggregation_reads_simple_ones_only():
    made = saved("aggregation.calls_gb")

    with pytest.raises(Invalid, match=r"`aggregation.c` is a compound aggregation"):
        made.put(CompoundAggregation, "other", **COMPOUND, calculation="aggregation.c + 1")


def test_custom_fields_have_their_own_value_or_the_organization_s():
    made = world().change(Product, "cloud", customFields={"share": 50})
    made.change(Aggregation, "egress_gb", customFields={"weight": 110})
    saved(
        "aggregation.egress_gb * customFields.meter.price",
        made,
        productId="@cloud",
        customFields={"base": 130},
    )
    entity = made.has(CompoundAggregation, "c").entity

    assert CompoundScope(entity, made.configuration).constants() == {
        "customFields.organization.factor": 2,
        "customFields.product.share": 50,
        "customFields.meter.price": 7,
        "customFields.aggregation.weight": 110,
        "customFields.compoundAggregation.base": 130,
    }


def test_of_several_aggregations_none_lends_its_custom_fields():
    made = world().change(Aggregation, "egress_gb", customFields={"weight": 110})
    made = saved("aggregation.egress_gb + aggregation.calls_gb", made)
    scope = CompoundScope(made.has(CompoundAggregation, "c").entity, made.configuration)

    assert scope.constants()["customFields.aggregation.weight"] == 11
    assert "customFields.product.share" not in scope.constants()


@pytest.mark.parametrize(
    ("calculation", "change"),
    [
        ("customFields.organization.factor", {"organization": {}}),
        ("customFields.account.rate", {"account": {"rate": "text", "name": "x"}}),
        ("customFields.meter.price", {"meter": {"price": "text"}}),
        ("customFields.compoundAggregation.base", {"compoundAggregation": {}}),
        ("customFields.plan.tier", {"plan": {}}),
        ("customFields.contract.level", {"contract": {"level": "text"}}),
    ],
)
def test_a_custom_field_that_a_calculation_names_stays_what_it_is(calculation, change):
    made = saved(calculation)

    with pytest.raises(Invalid, match=r"CompoundAggregation 'c' does not fit any more"):
        made.put(CustomFields, "2", **(FIELDS | change))
    made.put(CustomFields, "2", **(FIELDS | {"planTemplate": {"new": 1}}))


def test_own_values_of_products_and_aggregations_stay_of_their_type():
    made = saved(
        "customFields.product.share + customFields.aggregation.weight * aggregation.egress_gb",
        productId="@cloud",
    )
    for kind, name, field in ((Product, "cloud", "share"), (Aggregation, "egress_gb", "weight")):
        with pytest.raises(Invalid, match=r"CompoundAggregation 'c' does not fit any more"):
            made.change(kind, name, customFields={field: "text"})
        made.change(kind, name, customFields={field: 4})


def test_an_unread_aggregation_may_go_anywhere():
    made = saved("aggregation.calls_gb")
    made.put(Aggregation, "new", **AGGREGATION, code="new", meterId="@egress")

    assert [each.entity.code for each in _parts(made)] == ["calls_gb"]


def _parts(made):
    return CompoundScope(made.has(CompoundAggregation, "c").entity, made.configuration).parts()
