"""Laws of configuration: applying is idempotent, order does not matter, nothing loses a digit."""

import json
import string
from decimal import Decimal
from uuid import UUID, uuid4

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from meterlake.model.resources import BY_NAME
from meterlake.model.resources.proposal import Document
from meterlake.model.values import wire
from meterlake.model.values.documents import parse, to_yaml
from meterlake.pipeline.config.apply_configuration import ChangeAction, apply, export
from meterlake.stages.config.check import check
from meterlake.stages.config.describe import describe_all
from meterlake.stages.config.diff import propose
from meterlake.stages.config.reference.schema import configuration_schema
from tests.organizations import after, empty, new_organization, open_state

text = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=30
)
codes = st.text(string.ascii_letters + string.digits + "_-äß", min_size=1, max_size=12)
idents = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
numbers = st.decimals(0, 10**26 - 1, places=20, allow_nan=False) | st.integers(0, 10**26 - 1)
positive = numbers.filter(bool)
custom_names = ["industry", "ÿes", "no", "1"]


@st.composite
def organizations(draw):
    """The documents of a small organization that breaks no rule."""
    products = draw(st.lists(codes, min_size=1, max_size=3, unique=True))
    meters = draw(st.lists(codes, min_size=1, max_size=3, unique=True))
    accounts = draw(st.lists(codes, max_size=4, unique=True))
    aggregations = draw(st.lists(idents, min_size=1, max_size=3, unique=True))
    templates = draw(st.lists(codes, min_size=1, max_size=2, unique=True))
    return {
        "customFields": {"account": dict.fromkeys(custom_names, 0)},
        "products": [{"code": code, "name": draw(text)} for code in products],
        "meters": [
            {
                "code": code,
                "name": draw(text),
                "dataFields": [{"category": "MEASURE", "code": "v", "name": draw(text)}],
                "derivedFields": [],
            }
            for code in meters
        ],
        "aggregations": [
            {
                "code": code,
                "name": draw(text),
                "meterId": draw(st.sampled_from(meters)),
                "targetField": "v",
                "aggregation": draw(st.sampled_from(["SUM", "MAX", "COUNT", "LATEST"])),
                "rounding": draw(st.sampled_from(["UP", "DOWN", "NEAREST", "NONE"])),
                "quantityPerUnit": draw(positive),
                "unit": draw(text),
            }
            for code in aggregations
        ],
        "planTemplates": [
            {
                "code": code,
                "name": draw(text),
                "productId": draw(st.sampled_from(products)),
                "currency": "USD",
                "standingCharge": draw(numbers),
                "billFrequency": "MONTHLY",
            }
            for code in templates
        ],
        "plans": [
            {"code": f"{code}!", "name": draw(text), "planTemplateId": code} for code in templates
        ],
        "pricings": [
            {
                "planTemplateId": draw(st.sampled_from(templates)),
                "aggregationId": code,
                "startDate": "2026-01-01T00:00:00Z",
                "cumulative": draw(st.booleans()),
                "pricingBands": draw(bands()),
            }
            for code in aggregations
        ],
        "accounts": [
            {
                "code": code,
                "name": draw(text),
                "emailAddress": "a@b.example",
                "customFields": draw(
                    st.dictionaries(st.sampled_from(custom_names), text | numbers)
                ),
            }
            for code in accounts
        ],
        "accountPlans": [
            {
                "accountId": code,
                "planId": f"{draw(st.sampled_from(templates))}!",
                "startDate": "2026-01-01T00:00:00Z",
            }
            for code in accounts
        ],
    }


@st.composite
def bands(draw):
    lowers = sorted(draw(st.sets(positive, max_size=3)))
    return [
        {"lowerLimit": lower, "fixedPrice": draw(numbers), "unitPrice": draw(numbers)}
        for lower in [0, *lowers]
    ]


def documents(content):
    return [Document("a", content)]


def described(content, before=None):
    return describe_all(after(documents(content), before))


@settings(max_examples=25, deadline=None)
@given(organizations())
def test_applying_what_was_applied_changes_nothing(content):
    once = after(documents(content))

    assert after(documents(content), once).versions() == once.versions()


@settings(max_examples=25, deadline=None)
@given(organizations())
def test_an_export_changes_nothing_where_it_comes_from(content):
    configuration = after(documents(content))
    exported = documents(describe_all(configuration))

    assert after(exported, configuration).versions() == configuration.versions()


@settings(max_examples=25, deadline=None)
@given(organizations())
def test_an_export_makes_the_same_organization_elsewhere(content):
    exported = described(content)

    assert without_ids(described(exported)) == without_ids(exported)


IDS = st.integers(1, 2**32).map(lambda number: str(UUID(int=number)))


@st.composite
def without_codes(draw):
    """The documents of an organization whose entities have no codes, and partly are alike."""
    alike = st.sampled_from(["Traffic", "Storage", "x" * 100])
    groups = draw(st.dictionaries(IDS, alike, min_size=1, max_size=4))
    templates = draw(st.dictionaries(IDS, alike, min_size=1, max_size=3))
    contracts = draw(st.lists(alike, max_size=2, unique=True))
    return {
        "products": [{"code": "p", "name": "P"}],
        "meterGroups": [{"id": id_, "name": name} for id_, name in groups.items()],
        "meters": [
            {
                "code": f"m{number}",
                "name": "M",
                "groupId": id_,
                "dataFields": [{"category": "MEASURE", "code": "v", "name": "V"}],
                "derivedFields": [],
            }
            for number, id_ in enumerate(draw(st.lists(st.sampled_from([*groups]), max_size=3)))
        ],
        "planTemplates": [
            {
                "id": id_,
                "name": name,
                "productId": "p",
                "currency": "USD",
                "standingCharge": draw(st.integers(0, 3)),
                "billFrequency": "MONTHLY",
            }
            for id_, name in templates.items()
        ],
        "plans": [
            {"code": f"plan{number}", "name": "Plan", "planTemplateId": id_}
            for number, id_ in enumerate(templates)
        ],
        "statementDefinitions": [
            {"id": id_, "name": name, "aggregationFrequency": "MONTH"}
            for id_, name in draw(st.dictionaries(IDS, alike, max_size=2)).items()
        ],
        "accounts": [{"code": "a", "name": "A", "emailAddress": "a@b.example"}],
        "contracts": [
            {
                "id": name[:80],
                "name": name,
                "accountId": "a",
                "startDate": "2026-01-01",
                "endDate": "2027-01-01",
            }
            for name in contracts
        ],
        "accountPlans": [
            {
                "accountId": "a",
                "planId": "plan0",
                "startDate": "2026-01-01T00:00:00Z",
                "contractId": each[:80],
            }
            for each in contracts[:1]
        ],
    }


def in_another_organization(exported):
    start = empty()
    proposals = propose("other", start, documents(exported), lambda: str(uuid4()))
    return describe_all(check(start, proposals))


@settings(max_examples=25, deadline=None)
@given(organizations() | without_codes())
def test_an_export_of_what_an_export_makes_elsewhere_is_the_same_to_the_byte(content):
    configuration = after(documents(content))
    exported = describe_all(configuration)

    assert to_yaml(in_another_organization(exported)) == to_yaml(exported)
    assert after(documents(exported), configuration).versions() == configuration.versions()


@settings(max_examples=25, deadline=None)
@given(organizations() | without_codes())
def test_what_is_applied_and_what_is_exported_follows_the_schema(content):
    validator = Draft7Validator(json.loads(wire.dumps(configuration_schema())))

    for each in (content, described(content)):
        validator.validate(json.loads(wire.dumps(each)))


def without_ids(exported):
    """An export in which ids stand for their place: they differ from organization to organization."""
    return wire.dumps_sorted(
        {
            name: sorted(
                wire.dumps_sorted({k: v for k, v in e.items() if k != "id"}) for e in entities
            )
            if isinstance(entities, list)
            else entities
            for name, entities in exported.items()
        }
    )


@settings(max_examples=25, deadline=None)
@given(organizations(), st.randoms(use_true_random=False))
def test_the_order_of_files_and_entities_changes_nothing(content, random):
    pieces = [
        Document("piece", {name: [entity]} if not BY_NAME[name].singleton else {name: entity})
        for name, entities in content.items()
        for entity in (entities if isinstance(entities, list) else [entities])
    ]
    random.shuffle(pieces)

    shuffled = describe_all(after(pieces))

    assert without_ids(shuffled) == without_ids(described(content))


@settings(max_examples=25, deadline=None)
@given(organizations())
def test_a_document_is_the_same_in_yaml_and_in_json(content):
    exported = described(content)

    assert parse("a.yaml", to_yaml(exported).encode()) == exported
    assert parse("a.json", wire.dumps(exported)) == exported


values = st.recursive(
    st.none()
    | st.booleans()
    | numbers
    | st.decimals(allow_nan=False, allow_infinity=False, places=12)
    | text
    | st.just(""),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=10,
)


@given(values)
def test_what_yaml_writes_is_what_yaml_reads(value):
    plain = wire.to_plain(value)

    assert parse("a", to_yaml(plain).encode()) == plain


@given(st.decimals(allow_nan=False, allow_infinity=False, places=20) | st.integers())
def test_a_number_in_a_file_is_exact(number):
    written = format(Decimal(number), "f")

    assert parse("a.yaml", f"a: {written}".encode()) == {"a": Decimal(number)}
    assert parse("a.json", json.dumps({"a": "N"}).replace('"N"', written).encode()) == {
        "a": Decimal(number)
    }


@settings(max_examples=5, deadline=None)
@given(content=organizations())
def test_the_store_keeps_what_memory_says(tmp_path_factory, content):
    with open_state(tmp_path_factory.mktemp("home")) as state:
        org, other = new_organization(state), new_organization(state, "other")
        apply(state, org, documents(content), "a")
        exported = export(state, org)

        assert without_ids(exported) == without_ids(described(content))
        for content_again in (content, exported):
            changes = apply(state, org, documents(content_again), "a")
            assert {change.action for change in changes} <= {ChangeAction.UNCHANGED}
        apply(state, other, documents(exported), "a")
        assert without_ids(export(state, other)) == without_ids(exported)
    assert empty().versions()
