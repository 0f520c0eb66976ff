"""What the published file shows of configuration and bills, as documents in the wire's shape."""

from collections.abc import Mapping
from typing import Any

from meterlake.model.accounts import Account, AccountPlan
from meterlake.model.catalog import Aggregation, Meter, Product
from meterlake.model.entity import Configuration
from meterlake.model.pricing import Plan, PlanTemplate, Pricing
from meterlake.pipeline.bill_documents import bill_document, line_documents
from meterlake.stages.export.documents import Document, entity_documents
from meterlake.stages.publish import tables
from meterlake.stages.publish.tables import Table
from meterlake.stores import Stores
from meterlake.stores.state import bills

_ENTITIES = (
    (tables.ACCOUNT, Account),
    (tables.PRODUCT, Product),
    (tables.AGGREGATION, Aggregation),
    (tables.PRICING, Pricing),
    (tables.ACCOUNT_PLAN, AccountPlan),
)


def documents_of(
    stores: Stores, org_id: str, configuration: Configuration, table_names: Mapping[str, str]
) -> dict[Table, list[Document]]:
    """The documents of every table that is filled from State.

    Args:
        stores: The home's stores.
        org_id: The organization.
        configuration: Its configuration.
        table_names: The table of every meter by the meter's id.
    """
    found = {table: entity_documents(kind, configuration) for table, kind in _ENTITIES}
    found[tables.PLAN] = _plans(configuration)
    found[tables.METER] = [
        {**document, "tableName": table_names[document["id"]]}
        for document in entity_documents(Meter, configuration)
    ]
    with stores.state.reading(org_id) as reader:
        stored = bills.of_period(reader)
    found[tables.BILL] = [bill_document(bill) for bill in stored]
    found[tables.BILL_LINE] = [line for bill in stored for line in line_documents(bill)]
    return found


def _plans(configuration: Configuration) -> list[Document]:
    return [
        {**document, **_from_template(document, configuration)}
        for document in entity_documents(Plan, configuration)
    ]


def _from_template(plan: Mapping[str, Any], configuration: Configuration) -> Document:
    template = configuration.get(PlanTemplate, plan["planTemplateId"]).entity
    charge = plan.get("standingCharge")
    return {
        "template": template.to_wire(),
        "effectiveStandingCharge": template.standing_charge if charge is None else charge,
    }
