"""The flow of statements: those that wait are made, and one that fails does not hold up the others."""

from pathlib import Path
from typing import Any

import pytest

from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.statements.jobs import StatementJobFilter, create_batch, list_jobs
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.core.pages import Page
from tests.bills import a_home_to_bill
from tests.statement_world import SEPTEMBER, bill_ids

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.filterwarnings("ignore")]


def jobs(home: Any) -> dict[str, str]:
    """The statuses of all jobs by their bills."""
    views, _ = list_jobs(home.organization, StatementJobFilter(active=False), Page(10))
    return {each.bill_id: each.document["statementJobStatus"] for each in views}


@pytest.mark.long
def test_statements_that_wait_are_made_and_one_that_fails_is_told(tmp_path: Path) -> None:
    from flows.outcome import Incomplete
    from flows.statement import statement

    with a_home_to_bill(tmp_path) as home:
        bill(home.organization, SEPTEMBER)
        first, second = bill_ids(home)
        create_batch(home.organization, "test", {"billIds": [first, second]})
        with home.organization.transaction("test") as transaction:
            bills.remove(transaction, first)

        with pytest.raises(Incomplete, match=f"no bill '{first}'"):
            statement(home=str(home.stores.home), org="sample", name="2 statements")
        assert jobs(home) == {first: "FAILED", second: "COMPLETE"}

        [row] = statement(home=str(home.stores.home), org="sample")
        assert (row["statements"], row["problems"]) == (0, 0)
