"""The Data Explorer over HTTP: usage by question, once or saved; and the first one, with its files.

The first Data Explorer asks for usage, bills and commitments by codes. Of its paths the published
API's document has only that of bills; the others follow from it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from starlette.requests import Request

from meterlake.api.entities import page
from meterlake.api.responses.explorer import QuantitiesCalculateRequest
from meterlake.api.server.answers import JsonResponse
from meterlake.api.server.call import ORGANIZATION, Call, Handler, Operation, member
from meterlake.api.server.downloads import link
from meterlake.model.configuration.queries import UsageExplainRequest, UsageQueryRequest
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Required
from meterlake.model.usage.explorer import (
    QueryBillDataRequest,
    QueryCommitmentsRequest,
    QueryDimensionValuesRequest,
    QueryMeterDimensionsRequest,
    QueryMetersRequest,
    QueryUsageDataRequest,
)
from meterlake.model.values.entity import Value
from meterlake.model.values.period import Month
from meterlake.model.values.problems import read
from meterlake.pipeline.billing.jobs.quantities import get_quantities_job, submit_quantities
from meterlake.pipeline.explorer import bills as explorer_bills
from meterlake.pipeline.explorer import number
from meterlake.pipeline.explorer import usage as explorer_usage
from meterlake.pipeline.explorer.account_usage import read_account_usage
from meterlake.pipeline.explorer.answers import FileFormat, keep, keep_file, parquet
from meterlake.pipeline.explorer.explore import Stop, explore, explore_saved, statements
from meterlake.pipeline.usage.explain import QuantityFilter, explain
from meterlake.stores import Organization

T = TypeVar("T")
Rows = Sequence[Mapping[str, Any]]
# From the home, the organization and a question to its answer.
Verb = Callable[[Organization, Any], Any]

_EXPLORER: Final = f"{ORGANIZATION}/dataexplorer"
_QUERY: Final = "analytics:query"
_NAMES_MAX: Final = 10_000
_EXPLAINED_ROWS: Final = 20
_EXPLAINED_MAX: Final = 1_000
# Of the first Data Explorer, whose rows are nested documents.
_ROW_FORMATS: Final = (FileFormat.CSV, FileFormat.JSON)


async def query_usage(call: Call) -> JsonResponse:
    """Rows of usage, folded or as they were sent."""
    query = read(UsageQueryRequest, await call.document())
    return await ended_with_request(
        call, lambda stop: JsonResponse(explore(call.organization, query, stop).to_json())
    )


async def show_sql(call: Call) -> Any:
    """The SQL that a question about usage asks of the lake, meter by meter."""
    query = read(UsageQueryRequest, await call.document())
    return await ended_with_request(
        call, lambda stop: {"data": statements(call.organization, query, stop)}
    )


async def explain_number(call: Call) -> Any:
    """One number of the answer to a question, with its SQL and a page of its measurements."""
    request, this = read(UsageExplainRequest, await call.document()), page(call, _EXPLAINED_MAX)
    return await ended_with_request(
        call, lambda stop: number.explain_number(call.organization, request, this, stop).to_wire()
    )


def _downloading_usage(format: FileFormat) -> Handler:
    async def download(call: Call) -> Any:
        query, has_clocks = (
            read(UsageQueryRequest, await call.document()),
            call.query.flag("clocks"),
        )

        def write(stop: Stop) -> Any:
            found = explore(call.organization, query, stop)
            if has_clocks:
                found = found.with_clocks(query.groups)
            if format is FileFormat.PARQUET:
                return keep_file(call.organization, "usage", parquet(found.typed()), format)
            return keep(call.organization, "usage", found.documents(), format)

        file = await ended_with_request(call, write)
        return {"downloadUrl": await link(call, file, call.stores.settings.download_seconds)}

    return download


async def explain_quantity(call: Call) -> Any:
    """The quantities of an account and an aggregation in a period, down to the measurements."""
    query = call.query
    limit = query.integer("rows", _EXPLAINED_ROWS, least=0, most=_EXPLAINED_MAX)
    frequency = query.text("frequency")
    wanted = QuantityFilter(
        account=_needed(call, "account"),
        aggregation=_needed(call, "aggregation"),
        period=_needed(call, "period"),
        frequency=None if frequency is None else frequency.upper(),
        limit=limit or 0,
    )
    found = await call.run(explain, call.organization, wanted)
    return {"data": [each.to_wire() for each in found]}


async def calculate_quantities(call: Call) -> Any:
    """Have the quantities of a period calculated; they are kept if they differ from those that are."""
    asked = read(QuantitiesCalculateRequest, await call.document())
    return await call.run(
        submit_quantities, call.organization, call.author, asked.frequency, asked.period
    )


async def show_quantities_job(call: Call) -> Any:
    """How far that is, and what it came to."""
    return await call.run(get_quantities_job, call.organization, member(call, "job"))


def _needed(call: Call, name: str) -> str:
    found = call.query.text(name)
    if found is None:
        raise Required(name)
    return found


async def query_saved(call: Call) -> JsonResponse:
    """The rows that a saved query means now."""
    id_ = member(call, "UsageSavedQuery")
    return await ended_with_request(
        call,
        lambda stop: JsonResponse(explore_saved(call.organization, id_, stop).to_json()),
    )


async def ended_with_request(call: Call, work: Callable[[Stop], T]) -> T:
    """Run something long until it is done, takes too long, or nobody waits for its answer."""
    stop, seconds = Stop(), call.stores.settings.explorer_seconds
    working = asyncio.ensure_future(call.run(work, stop))
    leaving = asyncio.ensure_future(_wait_for_disconnect(call.request))
    try:
        done, _ = await asyncio.wait(
            {working, leaving}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if leaving in done:
            stop("nobody waits for the answer any more")
        elif working not in done:
            stop(f"it takes longer than {seconds:g} s; ask for less at once")
        return await working
    finally:
        leaving.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    """Wait until whoever asks hangs up; the body has been read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


@dataclass(frozen=True, slots=True)
class _Question:
    """One question: its operation's name, path, resource, body, and who answers it.

    Attributes:
        file: The name of the file that the answer may be downloaded as; None if it may not.
        stops: Whether the verb can be ended early.
    """

    id: str
    path: str
    resource: str
    body: type[Value]
    verb: Callable[..., Any]
    file: str | None = None
    stops: bool = False

    def run(self, call: Call, query: Value, stop: Stop) -> Any:
        more = (stop,) if self.stops else ()
        return self.verb(call.organization, query, *more)


_QUESTIONS: Final = (
    _Question(
        "PostQueryUsageData",
        "usagedata",
        "usage",
        QueryUsageDataRequest,
        explorer_usage.series,
        "usagedata",
        stops=True,
    ),
    _Question(
        "PostQueryMeterDimensions",
        "meterdimensions",
        "usage",
        QueryMeterDimensionsRequest,
        explorer_usage.meter_dimensions,
        stops=True,
    ),
    _Question(
        "PostQueryDimensionValues",
        "dimensionvalues",
        "usage",
        QueryDimensionValuesRequest,
        explorer_usage.values_of_dimension,
        stops=True,
    ),
    _Question(
        "PostQueryMeters",
        "meters",
        "usage",
        QueryMetersRequest,
        explorer_usage.meters_with_data,
        stops=True,
    ),
    _Question(
        "PostQueryBillData",
        "bills",
        "bill",
        QueryBillDataRequest,
        explorer_bills.bill_data,
        "bills",
    ),
    _Question(
        "PostQueryCommitments",
        "commitments",
        "commitment",
        QueryCommitmentsRequest,
        explorer_bills.commitments,
        "commitments",
    ),
    _Question(
        "PostQueryCommitmentLineItems",
        "commitments/lineitems",
        "commitment",
        QueryCommitmentsRequest,
        explorer_bills.commitment_lines,
    ),
    _Question(
        "PostQueryRemainingCommitments",
        "commitments/remaining",
        "commitment",
        QueryCommitmentsRequest,
        explorer_bills.remaining_commitments,
    ),
    _Question(
        "PostQueryObligations",
        "commitments/obligations",
        "commitment",
        QueryCommitmentsRequest,
        explorer_bills.obligations,
        "obligations",
    ),
)
_LISTS: Final[tuple[tuple[str, str, str, Verb], ...]] = (
    ("ListExploredBillAccounts", "bills/accounts", "bill", explorer_bills.billed_accounts),
    ("ListExploredBillProducts", "bills/products", "bill", explorer_bills.billed_products),
    (
        "ListExploredCommitmentAccounts",
        "commitments/accounts",
        "commitment",
        explorer_bills.committed_accounts,
    ),
)


def _asking(question: _Question) -> Handler:
    async def ask(call: Call) -> Any:
        query = read(question.body, await call.document())
        return await ended_with_request(call, lambda stop: question.run(call, query, stop))

    return ask


def _downloading(question: _Question, format: FileFormat) -> Handler:
    async def download(call: Call) -> Any:
        query = read(question.body, await call.document())
        name = question.file
        assert name is not None

        def write(stop: Stop) -> Any:
            found = question.run(call, query, stop)
            rows: Rows = found if isinstance(found, list) else found["values"]
            return keep(call.organization, name, rows, format)

        file = await ended_with_request(call, write)
        return {"downloadUrl": await link(call, file, call.stores.settings.download_seconds)}

    return download


def _listing(verb: Verb) -> Handler:
    async def list_(call: Call) -> Any:
        limit = call.query.integer("limit", _NAMES_MAX, least=1, most=_NAMES_MAX)
        return await call.run(verb, call.organization, limit)

    return list_


def _operation(id_: str, path: str, resource: str, handler: Handler, method: str) -> Operation:
    path = f"{_EXPLORER}/{path}"
    return Operation(id_, method, path, _QUERY, resource, handler, limit="explorer")


async def account_usage(call: Call) -> Any:
    """What an account used on each day of a month."""
    name = call.query.text("month")
    month = None if name is None else Month.parse(name)
    id_ = member(call, Account.__name__)
    return await ended_with_request(
        call, lambda stop: read_account_usage(call.organization, id_, month, stop)
    )


OPERATIONS: Final = (
    Operation(
        "GetAccountUsage",
        "GET",
        f"{ORGANIZATION}/accounts/{{id}}/usage",
        "analytics:query",
        "usage",
        account_usage,
        item="",
        limit="query",
    ),
    Operation(
        "PostUsageDataQuery",
        "POST",
        f"{ORGANIZATION}/usage/query",
        "analytics:query",
        "usage",
        query_usage,
        limit="query",
    ),
    # Of our own.
    *(
        Operation(
            id_, method, f"{ORGANIZATION}/usage/{path}", _QUERY, "usage", handler, limit="query"
        )
        for id_, method, path, handler in (
            ("PostUsageDataQuerySql", "POST", "query/sql", show_sql),
            ("PostUsageDataQueryExplain", "POST", "query/explain", explain_number),
            ("ExplainQuantity", "GET", "explain", explain_quantity),
            *(
                (
                    f"PostUsageDataQueryDownload{format.name.title()}",
                    "POST",
                    f"query/download/{format}",
                    _downloading_usage(format),
                )
                for format in FileFormat  # noqa: A001
            ),
        )
    ),
    # Whoever may make bills may make what they are made of.
    Operation(
        "CalculateQuantities",
        "POST",
        f"{ORGANIZATION}/usage/quantities",
        "config:create",
        "billjob",
        calculate_quantities,
    ),
    Operation(
        "GetQuantitiesJob",
        "GET",
        f"{ORGANIZATION}/usage/quantities/{{id}}",
        "config:retrieve",
        "billjob",
        show_quantities_job,
    ),
    Operation(
        "QueryUsageSavedQuery",
        "POST",
        f"{ORGANIZATION}/usage/savedqueries/{{id}}/query",
        "analytics:query",
        "usage",
        query_saved,
        item="",
        limit="query",
    ),
    *(_operation(each.id, each.path, each.resource, _asking(each), "POST") for each in _QUESTIONS),
    *(
        _operation(
            f"{each.id}Download{format.name.title()}",
            f"{each.path}/download/{format}",
            each.resource,
            _downloading(each, format),
            "POST",
        )
        for each in _QUESTIONS
        if each.file is not None
        for format in _ROW_FORMATS  # noqa: A001
    ),
    *(
        _operation(id_, path, resource, _listing(verb), "GET")
        for id_, path, resource, verb in _LISTS
    ),
)
