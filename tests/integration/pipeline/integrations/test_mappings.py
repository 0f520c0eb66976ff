"""What an entity is called in another system: once, found without a look at all mappings."""

import time

import pytest
from sqlalchemy import delete, select

from meterlake.model.configuration.integrations import ExternalMapping, IntegrationConfig, RunStatus
from meterlake.model.errors import Conflict, MeterlakeError
from meterlake.model.resources import BY_NAME
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.apply_configuration import apply
from meterlake.pipeline.config.entities import ResourceRef
from meterlake.pipeline.integrations.connectors.billed import read_bill
from meterlake.pipeline.integrations.connectors.connector import Outgoing
from meterlake.stages.config.diff import Document
from meterlake.stores.state.core.migrations.earlier import mapped_id
from meterlake.stores.state.core.stored_configuration import field_equals
from meterlake.stores.state.core.tables import ENTITY_REFERENCE
from tests.deliveries import client_of
from tests.sent_bills import account_id, create, home_with_bills, integrate, make_bills, send_bills

MAPPING = {
    "m3terEntity": "Account",
    "m3terId": "a-1",
    "externalSystem": "STRIPE_TEST",
    "externalTable": "Customer",
    "externalId": "cus_1",
}
KEY = {"type": "STATIC_API_KEY", "apiKey": "sk_test_1"}


@pytest.fixture
def home(tmp_path):
    with home_with_bills(tmp_path) as opened:
        yield opened


def map_it(home, **changes):
    return create(home, "externalMappings", **MAPPING | changes)


@pytest.mark.parametrize(
    "changes",
    [{}, {"externalSystem": "stripe_test"}, {"externalTable": "CUSTOMER"}],
    ids=str,
)
def test_an_entity_is_not_two_things_in_one_table(home, changes):
    made = map_it(home)

    with pytest.raises(Conflict, match=f"'cus_1' in Customer of STRIPE_TEST.*{made['id']}"):
        map_it(home, **changes, externalId="cus_2")


def test_an_update_does_not_make_an_entity_two_things(home):
    map_it(home)
    other = map_it(home, m3terId="a-2", externalId="cus_2")
    ref = ResourceRef(BY_NAME["externalMappings"], {}, other["id"])
    changed = MAPPING | {"externalId": "cus_2", "version": 1}

    with pytest.raises(Conflict, match="'cus_1' in Customer"):
        entities.update(home.organization, "test", ref, changed)
    moved = entities.update(
        home.organization, "test", ref, changed | {"m3terId": "a-2", "externalId": "cus_3"}
    )
    assert moved["externalId"] == "cus_3"


def test_a_file_does_not_make_an_entity_two_things(home):
    content = {"externalMappings": [MAPPING, MAPPING | {"externalId": "cus_2"}]}

    with pytest.raises(MeterlakeError, match=r"Account a-1 is 'cus_.' in Customer.*already"):
        apply(home.stores.state, home.org_id, [Document("f", content)], "test")


@pytest.mark.parametrize(
    "changes",
    [
        {"m3terId": "a-2", "externalId": "cus_2"},
        {"m3terEntity": "Product", "externalId": "cus_2"},
        {"externalSystem": "STRIPE", "externalId": "cus_2"},
        {"externalTable": "Invoice", "externalId": "cus_2"},
        {},
    ],
    ids=str,
)
def test_other_mappings_are_free(home, changes):
    map_it(home)

    assert map_it(home, **changes)["version"] == 1


def outgoing_of(home, config_id, run):
    with home.organization.reading() as reader:
        config = reader.get(IntegrationConfig, config_id)
    return Outgoing(
        organization=home.organization,
        run_id=run.id,
        number=1,
        time=home.stores.now(),
        content=run.content,
        client=client_of(home.stores),
        config=config,
    )


@pytest.mark.long
def test_the_mapping_of_the_integration_comes_before_the_general_one(home):
    acme = account_id(home, "acme")
    config = integrate(home, "STRIPE_TEST", KEY, accountIds=[acme])
    own = {"m3terId": acme, "integrationConfigId": config["id"]}
    map_it(home, m3terId=acme, externalId="general")
    map_it(home, m3terId=acme, externalTable="Invoice", externalId="another table")
    map_it(home, m3terId=acme, externalSystem="AWS", externalId="another system")
    make_bills(home)
    [run] = send_bills(home, known={"NONE": None})

    outgoing = outgoing_of(home, config["id"], run)
    assert run.status is RunStatus.ERROR
    assert read_bill(outgoing).mapped("Account", acme) == "general"
    map_it(home, **own, externalId="own")
    assert read_bill(outgoing).mapped("Account", acme) == "own"


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_one_of_many_mappings_is_found_without_the_others(home, count):
    with home.organization.transaction("test") as transaction:
        for number in range(count):
            facts = {"m3terId": f"a-{number}", "externalId": f"cus_{number}"}
            transaction.create(ExternalMapping.from_wire(MAPPING | facts))
    with home.organization.reading() as reader:
        before = time.process_time()
        for number in range(0, count, count // 10):
            condition = field_equals(reader, ExternalMapping, "m3ter_id", f"a-{number}")
            [found] = reader.matching(ExternalMapping, condition)
            assert found.entity.external_id == f"cus_{number}"
        by_index = time.process_time() - before
        before = time.process_time()
        assert len(reader.all(ExternalMapping)) == count
        whole = time.process_time() - before
    # Ten of them take less than one look at all.
    assert by_index < whole


def test_mappings_of_before_are_found_too(home):
    map_it(home)
    with home.organization.transaction("test") as transaction:
        reference = ENTITY_REFERENCE.c
        is_key = reference.target_kind == "="
        kept = [
            dict(row._mapping)
            for row in transaction.connection.execute(select(ENTITY_REFERENCE).where(is_key))
        ]
        transaction.connection.execute(delete(ENTITY_REFERENCE).where(is_key))
        [record] = transaction.all(ExternalMapping)
        again = mapped_id(home.org_id, record.id, '{"m3terId": "a-1"}')
    assert [again] == kept
