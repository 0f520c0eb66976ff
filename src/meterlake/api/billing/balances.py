"""Operations of balances that are no standard verbs, and those that show what a balance holds."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from starlette.responses import Response

from meterlake.api.entities import page, retrieving, searched_page, standard_operations
from meterlake.api.server.call import ORGANIZATION, Call, Operation, member
from meterlake.api.server.downloads import content_response
from meterlake.model.customers.balances import Balance, EntityType
from meterlake.model.errors import Forbidden
from meterlake.model.resources import BY_ENTITY
from meterlake.pipeline.billing.balances import balances
from meterlake.pipeline.billing.balances.balances import TRANSACTION_FILTERS
from meterlake.pipeline.billing.verification.ledger_check import read_beancount
from meterlake.stores.state.billing.credits.balances import BalanceFilters

_BALANCES: Final = f"{ORGANIZATION}/balances"
_TRANSACTIONS: Final = f"{_BALANCES}/{{balanceId}}/transactions"
_PAGE_MAX: Final = 100
_LONG_PAGE_MAX: Final = 200
_TYPES: Final = {each.value: each.value for each in EntityType}


def _balance_id(call: Call) -> str:
    return member(call, Balance.__name__, "balanceId")


async def _create_transaction(call: Call) -> Any:
    return await call.run(
        balances.create_transaction,
        call.organization,
        call.author,
        _balance_id(call),
        await call.document(),
    )


async def _list_transactions(call: Call) -> Any:
    criteria = {name: call.query.text(name) for name in TRANSACTION_FILTERS}
    criteria["entityType"] = call.query.one_of("entityType", _TYPES, None)
    return await call.run(
        balances.list_transactions,
        call.organization,
        _balance_id(call),
        {name: value for name, value in criteria.items() if value is not None},
        page(call, _LONG_PAGE_MAX),
        with_reversed=call.query.flag("includeReversed"),
    )


async def _summarize_transactions(call: Call) -> Any:
    return await call.run(balances.summarize_transactions, call.organization, _balance_id(call))


async def _preview_charges(call: Call) -> Any:
    document = await call.document()
    criteria = page(call, _LONG_PAGE_MAX)
    return await call.run(
        balances.preview_charges, call.organization, _balance_id(call), document, criteria
    )


async def _preview_transactions(call: Call) -> Any:
    document = await call.document()
    criteria = page(call, _LONG_PAGE_MAX)
    return await call.run(
        balances.preview_transactions, call.organization, _balance_id(call), document, criteria
    )


async def _list_balances(call: Call) -> Any:
    query = call.query
    # The contract of the filter; empty text, which asks for balances of no contract, is kept.
    found = call.query.text("contractId") or call.query.text("contract")
    contract_id = found or call.request.query_params.get("contractId")
    criteria = BalanceFilters(
        ids=tuple(query.texts("ids")),
        account_id=query.text("accountId"),
        contract_id=contract_id,
        ends_from=query.instant("endDateStart"),
        ends_before=query.instant("endDateEnd"),
    )
    this = searched_page(call, BY_ENTITY[Balance], _PAGE_MAX)
    return await call.run(balances.list_page, call.organization, criteria, this)


def _with_amount(
    operation: Operation, read: Callable[..., Any] = balances.with_amount
) -> Operation:
    standard = operation.handler
    assert standard is not None

    async def handler(call: Call) -> Any:
        balance = await standard(call)
        return await call.run(read, call.organization, balance)

    return replace(operation, handler=handler)


def _standard_operations() -> list[Operation]:
    """Standard operations for which transactions matter."""
    known = {each.id: each for each in standard_operations()}
    retrieve = replace(known["GetBalance"], handler=retrieving(BY_ENTITY[Balance]))
    return [
        *map(_with_amount, (known["PostBalance"], retrieve, known["DeleteBalance"])),
        _with_amount(known["PutBalance"], balances.settled),
        replace(known["ListBalances"], handler=_list_balances),
    ]


async def _ledger(call: Call) -> Response:
    """The ledger says something of every balance and commitment."""
    if call.permissions.singles_out("config:retrieve", "balance"):
        raise Forbidden("no permission for config:retrieve on every balance; read them one by one")
    data = await call.run(read_beancount, call.organization)
    return content_response("ledger.beancount", "text/plain", data)


OPERATIONS: Final = (
    Operation(
        "GetLedgerFile",
        "GET",
        f"{ORGANIZATION}/ledger/beancount",
        "config:retrieve",
        "balance",
        _ledger,
    ),
    *_standard_operations(),
    Operation(
        "PostBalanceTransaction",
        "POST",
        _TRANSACTIONS,
        "config:create",
        "balancetransaction",
        _create_transaction,
    ),
    Operation(
        "ListBalanceTransactions",
        "GET",
        _TRANSACTIONS,
        "config:retrieve",
        "balancetransaction",
        _list_transactions,
    ),
    Operation(
        "GetBalanceTransactionsSummary",
        "GET",
        f"{_TRANSACTIONS}/summary",
        "config:retrieve",
        "balancetransaction",
        _summarize_transactions,
    ),
    Operation(
        "PreviewScheduledCharge",
        "POST",
        f"{_BALANCES}/{{balanceId}}/balancechargeschedules/preview",
        "config:retrieve",
        "balancechargeschedule",
        _preview_charges,
        feature="beta",
    ),
    Operation(
        "PreviewBalanceTransactionSchedule",
        "POST",
        f"{_BALANCES}/{{balanceId}}/balancetransactionschedules/preview",
        "config:retrieve",
        "balancetransactionschedule",
        _preview_transactions,
        feature="beta",
    ),
)
