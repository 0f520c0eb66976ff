"""Operations of the contract that this version knows but does not do: they answer 501, and say why."""

from typing import Final

from meterlake.api.operations import ORGANIZATION, Operation

_STATEMENTS: Final = "bills have no statements"

# Name, method, path, what it acts on; the action follows from the method unless it is given.
_ROWS: Final[tuple[tuple[str, tuple[tuple[str, str, str, str], ...]], ...]] = (
    (
        _STATEMENTS,
        (
            ("GetBillCsvStatement", "GET", "bills/{id}/statement/csv", "bill"),
            ("CreateBillCsvStatement", "POST", "bills/{id}/statement/csv", "bill"),
            ("GetBillJsonStatement", "GET", "bills/{id}/statement/json", "bill"),
            ("ListStatementJobs", "GET", "statementjobs", "statementjob"),
            ("CreateStatementJob", "POST", "statementjobs", "statementjob"),
            ("CreateStatementJobBatch", "POST", "statementjobs/batch", "statementjob"),
            ("GetStatementJob", "GET", "statementjobs/{id}", "statementjob"),
            ("CancelStatementJob", "POST", "statementjobs/{id}/cancel", "statementjob"),
        ),
    ),
)
_ACTIONS: Final = {
    "GET": "config:retrieve",
    "POST": "config:create",
    "PUT": "config:update",
    "DELETE": "config:delete",
}
_SPECIAL: Final = {
    "CancelStatementJob": "config:update",
}

OPERATIONS: Final = tuple(
    Operation(
        id,
        method,
        f"{ORGANIZATION}/{path}",
        _SPECIAL.get(id, _ACTIONS[method]),
        resource,
        detail=detail,
    )
    for detail, rows in _ROWS
    for id, method, path, resource in rows  # noqa: A001
)
