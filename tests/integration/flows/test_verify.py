"""The flow of verifications: a bill that is not what it was fails the run, after all others were verified."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import text

from meterlake.model.bills.requests import BillStatus
from meterlake.pipeline.billing import bills
from meterlake.pipeline.billing.jobs.jobs import bill
from tests.bills import a_home_to_bill
from tests.statement_world import SEPTEMBER, bill_ids

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.filterwarnings("ignore")]


@pytest.mark.slow
def test_a_bill_that_differs_fails_the_run_with_its_name(tmp_path: Path) -> None:
    from flows.incomplete import Incomplete
    from flows.verify import verify

    with a_home_to_bill(tmp_path) as home:
        home.clock.time = datetime.now(UTC)
        bill(home.organization, SEPTEMBER)
        first, second = bill_ids(home)
        bills.set_status(home.organization, "test", first, BillStatus.APPROVED)

        [row] = verify(home=str(home.stores.home), org=("sample",))
        # The one that was approved lately, and both of the sample.
        assert (row["verified"], row["unpinned"], row["problems"]) == (3, 0, 0)

        with home.stores.state.writing_home() as connection:
            change = text("UPDATE bill SET total = '1' WHERE id = :id")
            assert connection.execute(change, {"id": second}).rowcount == 1
        with pytest.raises(Incomplete, match=f"sample: bill {second} total: stored 1, calculated"):
            verify(home=str(home.stores.home), org=("sample",))
