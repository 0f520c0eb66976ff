import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import get_origin

import pytest

import sample_data
from meterlake.model.catalog.plans import Pricing
from meterlake.model.configuration.organization import Currency, OrganizationConfig
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.errors import (
    Conflict,
    DuplicateCode,
    Invalid,
    NotFound,
    StillReferenced,
    UnreadableConfiguration,
)
from meterlake.model.resources import CONFIG, RESOURCES
from meterlake.model.resources.proposal import Document
from meterlake.pipeline.config.apply_configuration import (
    ApplyOptions,
    ChangeAction,
    FieldDifference,
    apply,
    export,
    export_yaml,
    read_documents,
)
from tests.organizations import added, changed, everything, new_organization, open_state

SAMPLE = Path(sample_data.__file__).parent / "configuration"
ACME = {"code": "acme", "name": "Acme", "emailAddress": "a@b.example"}


@pytest.fixture
def state(tmp_path):
    with open_state(tmp_path / "home") as opened:
        yield opened


@pytest.fixture
def org(state):
    return new_organization(state)


def actions(changes):
    return {change.action for change in changes}


def test_what_is_applied_is_created_and_then_unchanged(state, org):
    first = apply(state, org, everything(), "USER_1")
    second = apply(state, org, everything(), "USER_1")

    assert {c.action for c in first if c.kind != "organizationConfig"} == {ChangeAction.CREATED}
    assert actions(second) == {ChangeAction.UNCHANGED}
    assert [c.differences for c in second] == [()] * len(second)
    assert state.configuration(org).find(Account, "acme").created_by == "USER_1"


def test_a_change_is_shown_field_by_field_with_references_by_code(state, org):
    apply(state, org, everything(), "USER_1")
    documents = changed("plans", standingCharge=Decimal("49.90"), name="Basic+")
    documents += added(
        "planTemplates", **{**documents[0].content["planTemplates"][0], "code": "new"}
    )
    documents[0].content["plans"][0]["planTemplateId"] = "new"

    changes = {
        c.kind: c
        for c in apply(state, org, documents, "USER_1")
        if c.action is ChangeAction.UPDATED
    }

    assert set(changes) == {"plans"}
    assert changes["plans"].name == "basic"
    assert changes["plans"].differences == (
        FieldDifference("name", "Basic", "Basic+"),
        FieldDifference("planTemplateId", "cloud", "new"),
        FieldDifference("standingCharge", None, Decimal("49.9")),
    )


def test_what_files_do_not_mention_stays(state, org):
    apply(state, org, everything(), "USER_1")
    before = state.configuration(org).versions()

    apply(state, org, added("accounts", code="new", name="N", emailAddress="a@b.example"), "USER_1")

    after = state.configuration(org).versions()
    assert before.items() <= after.items()
    assert len(after) == len(before) + 1


def test_a_dry_run_tells_the_same_and_writes_nothing(state, org):
    planned = apply(state, org, everything(), "USER_1", ApplyOptions(dry_run=True))

    assert len(state.configuration(org).versions()) == 4
    done = apply(state, org, everything(), "USER_1")
    assert [(c.place, c.action, c.differences) for c in planned] == [
        (c.place, c.action, c.differences) for c in done
    ]


@pytest.mark.parametrize(
    ("documents", "error"),
    [
        (changed("accountPlans", endDate="2020-01-01T00:00:00Z"), Invalid),
        (changed("accounts", emailAddress="nobody"), Invalid),
        ([*everything(), Document("x.yaml", {"acounts": []})], Invalid),
    ],
)
def test_all_is_applied_or_nothing(state, org, documents, error):
    with pytest.raises(error):
        apply(state, org, documents, "USER_1")

    assert len(state.configuration(org).versions()) == 4


def test_what_the_store_refuses_at_the_last_entity_leaves_nothing(state, org):
    apply(
        state,
        org,
        [*added("accounts", **ACME), *added("accounts", **ACME | {"code": "bolt"})],
        "USER_1",
    )
    records = {r.entity.code: r for r in state.configuration(org).all(Account)}
    swapped = [
        {**ACME, "id": records[a].id, "code": b} for a, b in (("acme", "bolt"), ("bolt", "acme"))
    ]

    with pytest.raises(DuplicateCode):
        apply(
            state,
            org,
            [
                *everything(),
                Document("swap.yaml", {"products": [{"code": "p", "name": "P"}]}),
                Document("swap", {"accounts": swapped}),
            ][1:],
            "USER_1",
        )

    assert export(state, org).keys() == {
        "accounts",
        "currencies",
        "customFields",
        "billConfig",
        "organizationConfig",
    }


def test_a_change_is_named_by_what_identifies_it(state, org):
    apply(state, org, everything(), "USER_1")
    plan = {"accountId": "bolt", "planId": "basic", "startDate": "2026-01-01T00:00:00Z"}

    [change] = apply(
        state,
        org,
        added("accountPlans", **plan, colour="red"),
        "USER_1",
        ApplyOptions(allow_unknown=True),
    )

    assert change.name == "bolt basic 2026-01-01T00:00:00Z"
    assert change.ignored == ("colour",)


@pytest.mark.long
def test_the_sample_is_applied_and_exported_and_applied_elsewhere(state, org):
    apply(state, org, read_documents([SAMPLE]), "USER_1")
    assert actions(apply(state, org, read_documents([SAMPLE]), "USER_1")) == {
        ChangeAction.UNCHANGED
    }
    exported = export(state, org)
    assert actions(apply(state, org, [Document("e", exported)], "USER_1")) == {
        ChangeAction.UNCHANGED
    }

    other = new_organization(state, "other")
    apply(state, other, [Document("e", exported)], "USER_1")

    assert export(state, other) == exported


def test_an_organization_without_codes_is_reproduced_too(state, org):
    content = everything()[0].content
    for kind in ("planTemplates", "aggregations", "pricings", "accountPlans"):
        content[kind][0].pop("code")
    content["planTemplates"][0]["id"] = content["plans"][0]["planTemplateId"] = "template"
    content["aggregations"][0]["id"] = content["pricings"][0]["aggregationId"] = "sum"
    apply(state, org, [Document("a", content)], "USER_1")
    exported = export(state, org)
    other = new_organization(state, "other")

    for organization in (org, other, other):
        changes = apply(state, organization, [Document("e", exported)], "USER_1")

    assert actions(changes) == {ChangeAction.UNCHANGED}
    assert strip(export(state, other)) == strip(exported)


def strip(documents):
    """The documents as text, ids and references to them hidden."""
    ids = [e["id"] for es in documents.values() if isinstance(es, list) for e in es if "id" in e]
    text = json.dumps(documents, default=str)
    for number, each in enumerate(ids):
        text = text.replace(each, f"id-{number}")
    return text


def test_numbers_survive_file_store_and_export(state, org, tmp_path):
    price = "0.12345678901234567891"
    content = everything()[0].content
    content["pricings"][0]["pricingBands"][0]["unitPrice"] = "PRICE"
    (tmp_path / "all.json").write_text(json.dumps(content).replace('"PRICE"', price))

    apply(state, org, read_documents([tmp_path / "all.json"]), "USER_1")

    [pricing] = state.configuration(org).all(Pricing)
    assert str(pricing.entity.pricing_bands[0].unit_price) == price
    assert f"unitPrice: {price}\n" in export_yaml(state, org)


def test_settings_of_a_new_organization_are_replaced_by_those_of_the_file(state, org):
    changes = apply(state, org, changed("organizationConfig", currency="EUR") + euro(), "USER_1")

    [change] = [c for c in changes if c.kind == "organizationConfig"]
    assert change.action is ChangeAction.UPDATED
    assert state.configuration(org).single(OrganizationConfig).version == 2
    assert state.configuration(org).find(Currency, "USD").version == 1


def euro():
    return added("currencies", code="EUR", name="Euro")


def test_files_and_folders_are_read_by_name(tmp_path):
    (tmp_path / "b.yaml").write_text("accounts: []")
    (tmp_path / "a.yml").write_text("products: []")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "c.JSON").write_text("{}")
    (tmp_path / "notes.txt").write_text("[")
    (tmp_path / "extra.conf").write_text("meters: []")

    documents = read_documents([tmp_path, tmp_path / "extra.conf"])

    assert [(Path(d.name).name, d.content) for d in documents] == [
        ("a.yml", {"products": []}),
        ("b.yaml", {"accounts": []}),
        ("c.JSON", {}),
        ("extra.conf", {"meters": []}),
    ]


def test_a_file_that_is_not_there_or_no_yaml_is_refused(tmp_path):
    with pytest.raises(NotFound):
        read_documents([tmp_path / "nothing.yaml"])
    (tmp_path / "bad.yaml").write_text("a: [")
    with pytest.raises(UnreadableConfiguration, match=r"bad\.yaml"):
        read_documents([tmp_path])


def test_a_price_takes_the_place_of_one_that_is_pruned(state, org):
    apply(state, org, everything(), "USER_1")
    new = changed("pricings", code="egress-2")

    with pytest.raises(Invalid, match="pricings"):
        apply(state, org, new, "USER_1")
    changes = apply(state, org, new, "USER_1", ApplyOptions(prune=True))

    assert {c.name: c.action for c in changes if c.kind == "pricings"} == {
        "egress-2": ChangeAction.CREATED,
        "egress": ChangeAction.DELETED,
    }
    assert [r.entity.code for r in state.configuration(org).all(Pricing)] == ["egress-2"]


def test_what_is_pruned_is_named_by_the_codes_of_what_it_refers_to(state, org):
    apply(state, org, changed("accountPlans", code=None), "USER_1")
    [plan] = state.configuration(org).all(AccountPlan)
    gone = ApplyOptions(prune=True, dry_run=True)

    changes = apply(state, org, [Document("a", {"accountPlans": []})], "USER_1", gone)
    with pytest.raises(StillReferenced) as refused:
        apply(state, org, [Document("a", {"accounts": []})], "USER_1", gone)

    [name] = [each.name for each in changes if each.kind == "accountPlans"]
    assert name.startswith("acme ")
    assert name in str(refused.value)
    assert plan.id not in f"{name}{refused.value}"


def test_nothing_is_pruned_that_nobody_was_asked_about(state, org):
    apply(state, org, everything(), "USER_1")
    before = state.configuration(org).versions()

    with pytest.raises(Conflict, match="changed meanwhile"):
        apply(
            state,
            org,
            [Document("a", {"pricings": []})],
            "USER_1",
            ApplyOptions(prune=True, approved=frozenset()),
        )

    assert state.configuration(org).versions() == before


# -- what an organization has once, and lists that may be empty ---------------------------------


def settings_of(state, org):
    with state.reading(org) as reader:
        [record] = reader.all(OrganizationConfig)
    return record.entity


@pytest.mark.parametrize("alone", [{}, None])
def test_the_settings_of_an_organization_change_by_key(state, org, alone):
    put(state, org, {"timezone": "Europe/Berlin", "daysBeforeBillDue": 12})

    put(state, org, {"weekEpoch": "2024-01-01"})
    put(state, org, alone)

    found = settings_of(state, org)
    told = found.timezone, found.days_before_bill_due, found.week_epoch
    assert told == ("Europe/Berlin", 12, date(2024, 1, 1))
    put(state, org, {"timezone": None})
    assert settings_of(state, org).timezone == "UTC"
    with pytest.raises(Invalid, match="daysBeforeBillDue"):
        put(state, org, {"daysBeforeBillDue": None})


def put(state, org, settings):
    document = Document("organization.yaml", {"organizationConfig": settings})
    return apply(state, org, [document], "t")


def test_an_export_sets_the_settings_of_another_organization(state, org):
    exported = export(state, org)
    other = new_organization(state, code="other")
    put(state, other, {"timezone": "Europe/Berlin", "weekEpoch": "2024-01-01"})

    apply(state, other, [Document("export.yaml", exported)], "t")

    assert settings_of(state, other) == settings_of(state, org)


def test_lists_that_may_be_empty_may_be_left_out():
    """Whoever writes a file need not know which list somebody thought of as obligatory."""
    needed = {
        f"{resource.name}.{name}"
        for resource in RESOURCES
        if resource.area == CONFIG
        for name, field in resource.entity.model_fields.items()
        if field.is_required() and get_origin(field.annotation) is tuple
        if not any(getattr(each, "min_length", 0) for each in field.metadata)
    }
    assert needed == set()


def test_a_day_is_its_beginning_in_the_time_zone_of_the_organization(state, org):
    """Also in that of the same files, and of instants within other things."""
    documents = changed("pricings", startDate="2026-07-01")
    documents += [Document("settings.yaml", {"organizationConfig": {"timezone": "Asia/Tokyo"}})]
    del documents[0].content["organizationConfig"]

    changes = apply(state, org, documents, "t")
    found = [each for each in changes if each.kind == "pricings"]

    with state.reading(org) as reader:
        [pricing] = reader.all(Pricing)
    assert pricing.entity.start_date == datetime(2026, 6, 30, 15, tzinfo=UTC)
    assert [each.action for each in found] == [ChangeAction.CREATED]
    again = apply(state, org, documents, "t")
    assert actions(again) == {ChangeAction.UNCHANGED}


@pytest.mark.parametrize("day", ["2026-02-30", "0000-01-01", "2026-7-1", "yesterday"])
def test_what_is_no_day_is_no_instant(state, org, day):
    with pytest.raises(Invalid, match="startDate"):
        apply(state, org, changed("pricings", startDate=day), "t")
