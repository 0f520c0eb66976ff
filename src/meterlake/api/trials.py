"""An aggregation that is not saved yet, tried on the measurements that there are."""

from collections.abc import Iterator
from typing import Any, Final

from meterlake.api.responses.usage import AggregationTrialRequest
from meterlake.api.server.call import ORGANIZATION, Call, Operation
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Invalid
from meterlake.model.values.period import Month
from meterlake.model.values.problems import read
from meterlake.pipeline.config.entities import check_new
from meterlake.pipeline.usage.meter_rollup import try_aggregation
from meterlake.stages.usage.rows import SqlUsage
from meterlake.stores import Organization
from meterlake.stores.state.core import account_names

_ROWS_MAX: Final = 1_000


async def try_(call: Call) -> Any:
    """The quantities that an aggregation would give for a month, account by account."""
    asked = read(AggregationTrialRequest, await call.document())
    return await call.run(_try, call.organization, asked)


def _try(organization: Organization, asked: AggregationTrialRequest) -> dict[str, Any]:
    month, entity = Month.parse(asked.month), asked.aggregation
    with organization.reading() as reader:
        check_new(reader, organization.stores, entity)
        ids = None
        if asked.accounts:
            found = [reader.find(Account, code) for code in asked.accounts]
            for number, record in enumerate(found):
                if record is None:
                    rule = "it must be the code of an account"
                    raise Invalid(f"accounts[{number}]", asked.accounts[number], rule)
            ids = frozenset(each.id for each in found if each is not None)
    usage = try_aggregation(organization, entity, month, ids)
    rows = list(_rows(usage))
    with organization.reading() as reader:
        names = account_names.by_id(reader, {each["accountId"] for each in rows})
    codes = {each.id: each.code for each in names.values()}
    for each in rows:
        each["account"] = codes.get(each["accountId"], each["accountId"])
    rows.sort(key=lambda each: (each["account"], sorted(each.get("segment", {}).items())))
    return {"data": rows[:_ROWS_MAX], "more": len(rows) > _ROWS_MAX}


def _rows(usage: SqlUsage) -> Iterator[dict[str, Any]]:
    for used in (one for found in usage.by_meter.values() for one in found):
        for each in (*used.quantities, *used.unmatched):
            yield {
                "accountId": each.account_id,
                "measurements": each.measurements,
                "value": each.value,
                "units": each.units,
                **({"segment": dict(each.segment)} if each.segment else {}),
                **({"unmatched": True} if each in used.unmatched else {}),
            }
    for failure in usage.failures:
        yield {
            "accountId": failure.account_id,
            "error": failure.detail,
            **({"segment": dict(failure.segment)} if failure.segment else {}),
        }


OPERATIONS: Final = (
    Operation(
        "TryAggregation",
        "POST",
        f"{ORGANIZATION}/aggregations/try",
        "analytics:query",
        "usage",
        try_,
        limit="query",
    ),
)
