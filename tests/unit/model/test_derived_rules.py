"""Rules of derived fields: what a calculation may name when its meter is saved, and what then stays."""

from decimal import Decimal

import pytest

from meterlake.model.calculation import lookup_codes
from meterlake.model.catalog.catalog import Meter, Product
from meterlake.model.catalog.lookups import (
    LookupTable,
    LookupTableRevision,
    LookupTableRevisionState,
)
from meterlake.model.configuration.organization import CustomFields
from meterlake.model.errors import Invalid
from meterlake.model.values.entity import Configuration
from tests.organizations import empty
from tests.rule_world import GB, REGION, World

FIELDS = {"dataFields": [GB, REGION]}
PLACE = "derivedFields[0].calculation"


def world() -> World:
    """Custom fields of every kind that has them, a product, and a table with and one without data."""
    others = empty()
    kinds = [kind for kind in others.kinds() if kind is not CustomFields]
    made = World(Configuration(record for kind in kinds for record in others.all(kind)))
    made.put(
        CustomFields,
        "custom",
        organization={"vat": Decimal("0.2"), "name": "Acme"},
        account={"tier": Decimal(1), "group": "a"},
        product={"factor": Decimal(2)},
        meter={"unit": Decimal(1024)},
        plan={"hidden": Decimal(1)},
    )
    made.put(Product, "cloud", code="cloud", name="C")
    made.put(LookupTable, "rates", code="rates", name="Rates")
    made.put(LookupTable, "empty", code="empty", name="Empty")
    revision(made, "first", [("region", "STRING"), ("rate", "NUMBER")], "PUBLISHED")
    return made


def revision(made: World, name: str, fields: list[tuple[str, str]], status: str) -> None:
    """A revision of the table `rates`, keyed by its first field."""
    listed = [{"name": field, "type": kind} for field, kind in fields]
    table = {"lookupTableId": "@rates"}
    made.put(LookupTableRevision, name, **table, name=name, fields=listed, keys=[fields[0][0]])
    state(made, name, status)


def state(made: World, name: str, status: str) -> None:
    """Set the status of a revision."""
    places = {"lookupTableId": "@rates", "revisionId": f"@{name}"}
    made.put(LookupTableRevisionState, f"state {name}", **places, status=status)


def meter(made: World, calculation: str, category: str = "MEASURE", **more: object) -> World:
    """Save a meter with one derived field."""
    derived = {"category": category, "code": "x", "name": "X", "calculation": calculation}
    others = more.pop("others", [])
    return made.put(
        Meter, "m", code="m", name="M", **FIELDS, **more, derivedFields=[derived, *others]
    )


@pytest.mark.parametrize(
    ("calculation", "said"),
    [
        ("gb *", "column 5: something is missing at the end"),
        ("gbs * 2", "column 1: unknown name `gbs`; did you mean gb?"),
        ("gb + region", "column 6: `+` needs number, not text; did you mean toNumber(…)?"),
        ("region", "column 1: the result needs number, not text; did you mean toNumber(…)?"),
        ("ts", "column 1: the result needs number, not instant"),
        ("gb > 1", "column 1: the result needs number, not boolean"),
        ("x + 1", "column 1: `x` is a derived field; only data fields can be calculated with"),
        ("gb + y", "column 6: `y` is a derived field; only data fields can be calculated with"),
        ("customFields.account.teir", "did you mean customFields.account.tier?"),
        ("customFields.account.group", "the result needs number, not text"),
        ("customFields.plan.hidden", "column 1: unknown name `customFields.plan.hidden`"),
        ("2 * customFields.product.factor", "column 5: custom fields of a product need a meter"),
        ("aggregation.gb", "column 1: unknown name `aggregation.gb`"),
        ("new.gb", "column 1: unknown name `new.gb`"),
        ("account.id", "column 1: unknown name `account.id`; did you mean"),
        ('lookup("rate", "rate", region)', "unknown lookup table `rate`; did you mean rates?"),
        ('lookup("empty", "rate", region)', "column 8: lookup table `empty` has no published"),
        ('lookup("rates", "price", region)', "column 17: unknown field of rates `price`"),
        ('lookup("rates", "rate", gb)', "a key of lookup needs text, not number"),
        ('lookup("rates", "rate", region, ts)', "lookup needs as many keys as the table has (1)"),
        ('lookup(region, "rate", region)', "lookup names its table and field in double quotes"),
    ],
)
def test_a_calculation_that_cannot_be_right_is_refused_with_its_place(calculation, said):
    other = {"category": "COST", "code": "y", "name": "Y", "calculation": "gb"}

    with pytest.raises(Invalid) as refused:
        meter(world(), calculation, others=[other])

    assert PLACE in str(refused.value)
    assert said in str(refused.value)


def test_text_fields_need_texts():
    with pytest.raises(Invalid, match="the result needs text, not number"):
        meter(world(), "gb", "WHAT")
    meter(world(), "region + account.code", "WHAT")
    meter(world(), "region", "METADATA")


@pytest.mark.parametrize(
    "calculation",
    [
        "gb * customFields.organization.vat",
        "gb * customFields.account.tier",
        "gb / customFields.meter.unit",
        "hour(ts) + isnull(hour(ets), 0)",
        "length(account.code) + Math.round(Math.PI, 2)",
        'gb * isnull(lookup("rates", "rate", region), 1)',
        "null",
    ],
)
def test_a_meter_without_a_product_reads_everything_but_the_product(calculation):
    meter(world(), calculation)


def test_custom_fields_of_the_product_are_for_meters_of_a_product():
    made = meter(world(), "gb * customFields.product.factor", productId="@cloud")

    with pytest.raises(Invalid, match="need a meter of a product"):
        made.change(Meter, "m", productId=None)


def test_the_second_field_is_named_by_its_place():
    wrong = {"category": "COST", "code": "y", "name": "Y", "calculation": "1 +"}
    with pytest.raises(Invalid, match=r"derivedFields\[1\].calculation"):
        meter(world(), "gb", others=[wrong])


def test_a_custom_field_that_a_calculation_names_stays_and_keeps_its_type():
    made = meter(world(), "gb * customFields.account.tier")
    custom = made.has(CustomFields, "custom").entity.to_wire()

    with pytest.raises(Invalid, match=r"Meter 'm' does not fit any more .*unknown name"):
        made.put(CustomFields, "custom", **custom | {"account": {"group": "a"}})
    with pytest.raises(Invalid, match=r"Meter 'm' does not fit any more .*needs number, not text"):
        made.put(CustomFields, "custom", **custom | {"account": {"tier": "gold"}})
    made.put(CustomFields, "custom", **custom | {"account": {"tier": Decimal(7)}, "product": {}})


def test_a_product_s_own_custom_field_keeps_the_type_that_a_calculation_needs():
    made = meter(world(), "gb * customFields.product.factor", productId="@cloud")
    made.put(Product, "other", code="other", name="O")

    with pytest.raises(Invalid, match=r"Meter 'm' does not fit any more .*needs number, not text"):
        made.change(Product, "cloud", customFields={"factor": "two"})
    made.change(Product, "cloud", customFields={"factor": Decimal(3)})
    made.change(Product, "cloud", customFields={})
    made.change(Product, "other", customFields={"factor": "two"})


def test_a_table_that_a_calculation_names_keeps_its_code():
    made = meter(world(), 'gb * lookup("rates", "rate", region)')

    with pytest.raises(Invalid, match="Meter 'm' names it by 'rates'"):
        made.change(LookupTable, "rates", code="prices")
    made.change(LookupTable, "rates", name="Other")
    made.change(LookupTable, "empty", code="other")


def test_the_tables_of_a_text_are_found_whatever_else_it_says():
    calculations = [
        'lookup("a", "f", x) + lookup("b\\"c", "f", lookup("a", "g", x))',
        '"lookup(" + "x"',
        'lookup("broken',
        "gb",
    ]
    assert lookup_codes(calculations) == ("a", 'b"c')
