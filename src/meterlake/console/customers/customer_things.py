"""What a customer has, as a table: plans, balances, commitments, contracts, charges, links.

Each row says how things of a kind are listed, which form they have, what saving does, and how it is
undone. The pages that walk the rows are in `customer_pages`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from meterlake.console.customers.customer_forms import CustomerField, name_of
from meterlake.console.shell.lists import NAMED, Column, ListFilter, called_by
from meterlake.console.shell.page import Visit, words
from meterlake.model.customers.balances import BalanceLineItemType
from meterlake.model.customers.contracts import CommitmentLineItemType

CUSTOMERS: Final = "/console/customers"
_CHILDREN: Final = (
    ("PARENT_BREAKDOWN", "The parent pays, child by child"),
    ("PARENT_SUMMARY", "The parent pays, in one sum"),
    ("CHILD", "Each customer pays for itself"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """One kind of thing that a customer has.

    Attributes:
        key: The last segment of its pages' addresses.
        title: What several are called.
        one: What one is called, in a sentence.
        path: Its path in the API, below which one has its id.
        operations: Those that list, create, update and delete it; empty where there is none.
        columns: How a list shows it.
        fields: What its form asks for.
        makes: What creating one does.
        undo: How that is undone.
        about: A sentence on the list.
        owner: The member and filter with the customer's id.
        fixed: Members that every new one has.
        filters: Parameters of its list.
        narrowed: What people narrow its list by.
        computed: Members that nobody writes.
    """

    key: str
    title: str
    one: str
    path: str
    operations: tuple[str, str, str, str]
    columns: tuple[Column, ...]
    fields: tuple[CustomerField, ...]
    makes: str
    undo: str
    about: str
    owner: str = "accountId"
    owner_filter: str = "accountId"
    fixed: Mapping[str, Any] | None = None
    filters: tuple[tuple[str, Any], ...] = ()
    narrowed: tuple[ListFilter, ...] = (NAMED,)
    computed: tuple[str, ...] = ()

    def place(self, customer_id: str) -> str:
        """The address of the list of a customer's things of the kind."""
        return f"{CUSTOMERS}/{customer_id}/{self.key}"

    def may(self, visit: Visit, verb: str) -> bool:
        """Whether the person may do something with it: list, create, update, delete."""
        operation = self.operations[("list", "create", "update", "delete").index(verb)]
        return bool(operation) and visit.may(operation)


async def _name_plans(visit: Visit, rows: list[dict[str, Any]]) -> None:
    names: dict[str, str] = {}
    for kind, member in (("plans", "planId"), ("plangroups", "planGroupId")):
        found = await visit.api.by_id(f"/{kind}", (each.get(member) for each in rows))
        names |= {id_: name_of(each) for id_, each in found.items()}
    for each in rows:
        id_ = str(each.get("planId") or each.get("planGroupId") or "")
        each["name"] = names.get(id_, each.get("code") or "A plan")


async def _name_commitments(_: Visit, rows: list[dict[str, Any]]) -> None:
    for each in rows:
        each["name"] = f"{each['startDate']} to {each['endDate']}"
        each["left"] = each["amount"] - (each.get("amountSpent") or 0)


COMPLETE: Final[Mapping[str, Callable[..., Any]]] = {
    "plans": _name_plans,
    "commitments": _name_commitments,
}


_CODE: Final = Column("Code", "code", "code", sort="code")
_FROM: Final = Column("From", "startDate", "starts", sort="startDate")
_UNTIL: Final = Column("Until", "endDate", "ends", sort="endDate")
_PRODUCTS: Final = CustomerField(
    "productIds",
    "Only for some products",
    "choices",
    "Nothing ticked: for all products.",
    choices="/products",
)
_LINES_NOTE: Final = "Nothing ticked: for usage, charges and all other lines."


def _line_types(*types: StrEnum) -> CustomerField:
    chosen = tuple((each.value, words(each.value)) for each in types)
    return CustomerField(
        "lineItemTypes", "Only for some lines of bills", "choices", _LINES_NOTE, choices=chosen
    )


_CONTRACT: Final = CustomerField(
    "contractId", "Contract", "choice", choices="/contracts", none="Under no contract"
)
_CURRENCY: Final = CustomerField(
    "currency",
    "Currency",
    "choice",
    choices="/picklists/currency",
    required=True,
    none="Choose one",
)

PLANS: Final = Thing(
    key="plans",
    title="Plans",
    one="plan",
    path="/accountplans",
    operations=("ListAccountPlans", "PostAccountPlan", "PutAccountPlan", "DeleteAccountPlan"),
    owner_filter="account",
    filters=(("includeall", True),),
    narrowed=(
        ListFilter("date", "In force on", type="date"),
        called_by("code"),
    ),
    columns=(
        Column("Plan", "name"),
        _FROM,
        _UNTIL,
        Column("Who pays for children", "childBillingMode", "words", sort="childBillingMode"),
        _CODE,
    ),
    fields=(
        CustomerField("planId", "Plan", "choice", choices="/plans", none="A group of plans"),
        CustomerField(
            "planGroupId", "Or a group of plans", "choice", choices="/plangroups", none="One plan"
        ),
        CustomerField("startDate", "First day", "start", required=True),
        CustomerField("endDate", "Last day", "last", "Empty: until somebody ends it."),
        CustomerField(
            "childBillingMode", "Usage of child customers", "choice", choices=_CHILDREN, none=""
        ),
        _CONTRACT,
        CustomerField("billEpoch", "First bill date", "day", "Empty: that of the organization."),
        CustomerField("code", "Code", hint="What files call it; empty is fine."),
    ),
    makes="From its first day on, the plan's prices are on this customer's bills. "
    "Bills that are approved or locked stay as they are.",
    undo="End it on a day, or delete it while no bill has it.",
    about="What the customer is charged by. Usage without a plan is on no bill.",
    computed=("productId",),
)
BALANCES: Final = Thing(
    key="balances",
    title="Balances",
    one="balance",
    path="/balances",
    operations=("ListBalances", "PostBalance", "PutBalance", "DeleteBalance"),
    columns=(
        Column("Balance", "name", sort="name"),
        _CODE,
        _FROM,
        _UNTIL,
        Column("Left", "amount", "money"),
    ),
    fields=(
        CustomerField("name", "Name", required=True),
        CustomerField("code", "Code", required=True),
        _CURRENCY,
        CustomerField("startDate", "First day", "start", required=True),
        CustomerField("endDate", "Last day", "last", required=True),
        CustomerField("description", "Description"),
        CustomerField(
            "balanceDrawDownDescription", "Text on bills", hint="Where it pays for usage."
        ),
        CustomerField("rolloverAmount", "Carried over at most", "amount"),
        CustomerField("rolloverEndDate", "Carried over until", "last"),
        CustomerField(
            "overageSurchargePercent", "Surcharge when it is used up, in percent", "amount"
        ),
        CustomerField("allowOverdraft", "It may fall below zero", "tick"),
        _PRODUCTS,
        _line_types(*BalanceLineItemType),
        _CONTRACT,
    ),
    makes="It begins with nothing: top it up on its page. Bills draw from it while it lasts.",
    undo="Delete it while nothing is booked on it; else give it an earlier last day.",
    about="Money that the customer paid ahead; bills draw it down.",
    computed=("amount",),
)
COMMITMENTS: Final = Thing(
    key="commitments",
    title="Commitments",
    one="commitment",
    path="/commitments",
    narrowed=(
        ListFilter("date", "In force on", type="date"),
        ListFilter("endDateStart", "Ends on or after", type="date"),
        ListFilter("endDateEnd", "Ends before", type="date"),
    ),
    operations=("ListCommitments", "PostCommitment", "PutCommitment", "DeleteCommitment"),
    columns=(
        Column("Commitment", "name", sort="startDate"),
        Column("Amount", "amount", "money", sort="amount"),
        Column("Spent", "amountSpent", "money"),
        Column("Left", "left", "money"),
    ),
    fields=(
        CustomerField("amount", "Amount", "amount", required=True),
        _CURRENCY,
        CustomerField("startDate", "First day", "day", required=True),
        CustomerField("endDate", "Last day", "last_day", required=True),
        CustomerField("amountPrePaid", "Paid already", "amount"),
        CustomerField("amountFirstBill", "On the first bill", "amount"),
        CustomerField(
            "billingPlanId", "Plan with whose bills it is charged", "choice", choices="/plans"
        ),
        CustomerField("billingInterval", "Charged every so many bills", "whole"),
        CustomerField("billingOffset", "Counted from bill", "whole"),
        CustomerField("overageSurchargePercent", "Surcharge above it, in percent", "amount"),
        CustomerField("separateOverageUsage", "Usage above it has lines of its own", "tick"),
        CustomerField("commitmentFeeDescription", "Text of the fee"),
        CustomerField("commitmentUsageDescription", "Text where it pays for usage"),
        CustomerField("overageDescription", "Text above it"),
        _PRODUCTS,
        _line_types(*CommitmentLineItemType),
        _CONTRACT,
    ),
    makes="Bills charge the amount, and draw usage from it before they charge for usage.",
    undo="Delete it while no bill has drawn from it; else give it an earlier last day.",
    about="Amounts that the customer agreed to pay, with what is left of each.",
    computed=("amountSpent",),
)
CONTRACTS: Final = Thing(
    key="contracts",
    title="Contracts",
    one="contract",
    path="/contracts",
    operations=("ListContracts", "PostContract", "PutContract", "DeleteContract"),
    columns=(
        Column("Contract", "name", sort="name"),
        _CODE,
        Column("First day", "startDate", "day", sort="startDate"),
        Column("Ends before", "endDate", "day", sort="endDate"),
        Column("Purchase order", "purchaseOrderNumber", sort="purchaseOrderNumber"),
    ),
    fields=(
        CustomerField("name", "Name", required=True),
        CustomerField("code", "Code"),
        CustomerField("startDate", "First day", "day", required=True),
        CustomerField("endDate", "Last day", "last_day", required=True),
        CustomerField(
            "purchaseOrderNumber", "Purchase order", hint="On the bills of the contract."
        ),
        CustomerField("description", "Description", "area"),
        CustomerField("applyContractPeriodLimits", "Only usage within the contract counts", "tick"),
    ),
    makes="Plans, commitments and balances can stand under it.",
    undo="Delete it while nothing stands under it.",
    about="What was agreed for a time.",
)
CHARGES: Final = Thing(
    key="charges",
    title="Charges",
    one="charge",
    path="/charges",
    operations=("ListCharges", "CreateCharge", "UpdateCharge", "DeleteCharge"),
    columns=(
        Column("Charge", "name", sort="name"),
        _CODE,
        Column("Bill date", "billDate", "day", sort="billDate"),
        Column("Amount", "amount", "money", sort="amount"),
        Column("Units", "units", "number", sort="units"),
        Column("Unit price", "unitPrice", "money", sort="unitPrice"),
    ),
    fields=(
        CustomerField("name", "Name", required=True),
        CustomerField("code", "Code", required=True),
        CustomerField("description", "Text on the bill"),
        _CURRENCY,
        CustomerField(
            "amount", "Amount", "amount", "Below zero it is a credit. Or units and a price:"
        ),
        CustomerField("units", "Units", "amount"),
        CustomerField("unitPrice", "Price of a unit", "amount"),
        CustomerField("servicePeriodStartDate", "For usage from", "start", required=True),
        CustomerField("servicePeriodEndDate", "To the last day", "last", required=True),
        CustomerField("billDate", "Bill date", "day", "Empty: the next bill."),
        CustomerField("notes", "Notes for yourselves", "area", "Never on a bill."),
        _CONTRACT,
    ),
    makes="The bill of its date gets one line more when it is calculated next.",
    undo="Delete it, and calculate the bill again.",
    about="Single lines of bills: a set-up fee, a credit for an outage.",
    fixed={"entityType": "AD_HOC", "lineItemType": "AD_HOC"},
    computed=("scheduleId",),
)

THINGS: Final = {each.key: each for each in (PLANS, BALANCES, COMMITMENTS, CONTRACTS, CHARGES)}

ACCOUNT_FIELDS: Final = (
    CustomerField("name", "Name", required=True, hint="On bills."),
    CustomerField("code", "Code", required=True, hint="What your files call the customer."),
    CustomerField("emailAddress", "E-mail address", "email", required=True, hint="Bills go there."),
    CustomerField(
        "parentAccountId",
        "Parent",
        "account",
        "The code or the name of the customer that this one is part of.",
    ),
    CustomerField(
        "currency",
        "Currency",
        "choice",
        choices="/picklists/currency",
        none="That of the organization",
    ),
    CustomerField("purchaseOrderNumber", "Purchase order", hint="On every bill."),
    CustomerField("daysBeforeBillDue", "Days until a bill is due", "whole"),
    CustomerField("billEpoch", "First bill date", "day", "Empty: that of the organization."),
    CustomerField("address.addressLine1", "Address, line 1"),
    CustomerField("address.addressLine2", "Line 2"),
    CustomerField("address.addressLine3", "Line 3"),
    CustomerField("address.addressLine4", "Line 4"),
    CustomerField("address.postCode", "Postal code"),
    CustomerField("address.locality", "City"),
    CustomerField("address.region", "Region"),
    CustomerField("address.country", "Country"),
)
