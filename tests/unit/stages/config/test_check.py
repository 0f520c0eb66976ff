from dataclasses import replace

import pytest

from meterlake.model.catalog.catalog import Aggregation
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import DuplicateCode, Invalid, InvalidConfiguration
from meterlake.stages.config.check import affected_records
from tests.organizations import added, after, changed, everything


def test_what_is_not_changed_is_not_looked_at_again():
    before = after(everything())

    assert after(everything(), before).versions() == before.versions()


def test_a_changed_entity_is_at_its_next_version():
    configuration = after(changed("accounts", name="Acme Ltd"), after(everything()))

    assert configuration.find(Account, "acme").version == 2
    assert configuration.find(Account, "bolt").version == 1


def test_a_code_that_another_entity_has_is_refused_before_anything_is_written():
    before = after(everything())
    acme = {
        "id": before.find(Account, "acme").id,
        "code": "bolt",
        "name": "A",
        "emailAddress": "a@b.example",
    }

    with pytest.raises(DuplicateCode):
        after(added("accounts", **acme), before)


def test_each_entity_tells_the_first_rule_that_it_breaks():
    documents = changed("pricings", planTemplateId="cloud", aggregationId=None)
    documents += added("accounts", code="x", name="X", emailAddress="a@b.example", currency="EUR")

    with pytest.raises(InvalidConfiguration, match=r"^2 problems") as caught:
        after(documents)

    assert "planTemplateId" in str(caught.value)
    assert "currency" in str(caught.value)


def test_what_refers_to_a_change_through_others_is_checked_too():
    documents = changed("meters", productId=None)
    before = after(documents)

    with pytest.raises(Invalid, match=r"^Pricing 'egress'\.aggregationId: 'egress_gb'"):
        after(added("meters", **documents[0].content["meters"][0] | {"productId": "shop"}), before)


def test_a_walk_over_what_refers_to_a_change_finds_each_once_and_ends_in_circles():
    acme, bolt = after(everything()).all(Account)
    last = replace(acme, id="last")
    referring = {acme.id: [bolt, last], bolt.id: [last, acme], last.id: [acme, last]}

    found = list(affected_records([acme], lambda target: referring[target.id]))

    assert found == [bolt, last]


def test_a_new_field_and_a_new_aggregation_of_it_may_come_together():
    before = after(everything())
    documents = changed("meters")
    meter = documents[0].content["meters"][0]
    meter["dataFields"] = [*meter["dataFields"], {"category": "COST", "code": "own", "name": "Own"}]
    new = {
        "code": "own_cost",
        "name": "Own cost",
        "meterId": "egress",
        "targetField": "own",
        "aggregation": "SUM",
        "rounding": "NONE",
        "quantityPerUnit": 1,
        "unit": "EUR",
    }

    configuration = after(documents + added("aggregations", **new), before)

    assert configuration.find(Aggregation, "own_cost") is not None
