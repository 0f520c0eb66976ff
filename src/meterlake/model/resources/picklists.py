"""Lists that an organization picks from, and the definitions of its statements."""

from typing import Final

from meterlake.model.catalog.catalog import Meter
from meterlake.model.configuration.picklists import (
    BillGroupingKey,
    CreditReason,
    DebitReason,
    TransactionType,
)
from meterlake.model.configuration.statements import StatementDefinition
from meterlake.model.resources.resource import CODES, IDS, Filter, Resource
from meterlake.model.rules.contracts import exclusive_key_is_of_one_contract

PICKLIST_FILTERS: Final = (IDS, CODES, Filter("archived", kind="flag"))

ROWS: Final = (
    Resource(
        name="creditReasons",
        path="picklists/creditreasons",
        entity=CreditReason,
        label_key=("name",),
        schema="CreditReason",
        permission="creditreason",
        event="configuration.creditreason",
        filters=PICKLIST_FILTERS,
        operations={"create": "CreateCreditReason", "update": "UpdateCreditReason"},
    ),
    Resource(
        name="debitReasons",
        path="picklists/debitreasons",
        entity=DebitReason,
        label_key=("name",),
        schema="DebitReason",
        permission="debitreason",
        filters=PICKLIST_FILTERS,
        operations={"create": "CreateDebitReason", "update": "UpdateDebitReason"},
    ),
    Resource(
        name="transactionTypes",
        path="picklists/transactiontypes",
        entity=TransactionType,
        label_key=("name",),
        schema="TransactionType",
        permission="transactiontype",
        event="configuration.transactiontype",
        filters=PICKLIST_FILTERS,
        operations={"create": "CreateTransactionType", "update": "UpdateTransactionType"},
    ),
    Resource(
        name="billGroupingKeys",
        path="picklists/billgroupingkeys",
        entity=BillGroupingKey,
        label_key=("name",),
        rules=(exclusive_key_is_of_one_contract,),
        schema="BillGroupingKey",
        permission="billgroupingkey",
        filters=PICKLIST_FILTERS,
        operations={"create": "CreateBillGroupingKey", "update": "UpdateBillGroupingKey"},
    ),
    Resource(
        name="statementDefinitions",
        path="statementdefinitions",
        entity=StatementDefinition,
        key=("name",),
        refs={"dimensions.meter_id": Meter, "measures.meter_id": Meter},
        schema="StatementDefinition",
        permission="statementdefinition",
        filters=(),
    ),
)
