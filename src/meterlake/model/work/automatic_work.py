"""What `meterlake serve` does without being asked: printed when it starts, and switched off by name.

The rounds of the worker, and the deployments that Prefect runs by a schedule. Some of it does
something only for organizations whose configuration says so.
"""

import re
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from typing import Final, NamedTuple

from meterlake.model.errors import Invalid

_HOURLY: Final = re.compile(r"(\d+) \* \* \* \*")
_DAILY: Final = re.compile(r"(\d+) (\d+) \* \* \*")
_MONTHLY: Final = re.compile(r"(\d+) (\d+) (\d+) \* \*")


class AutomaticWork(NamedTuple):
    """One thing that is done by itself.

    Attributes:
        name: What it is switched off by.
        when: `every 1 s` of a round; the cron expression of a deployment, in UTC.
        what: What it does.
    """

    name: str
    when: str
    what: str

    @property
    def needs_prefect(self) -> bool:
        """Whether Prefect runs it."""
        return not self.when.startswith("every")

    @property
    def time(self) -> str:
        """When, as people say it."""
        if match := _HOURLY.fullmatch(self.when):
            return f"hourly at :{int(match[1]):02}"
        if match := _DAILY.fullmatch(self.when):
            return f"daily at {int(match[2]):02}:{int(match[1]):02}"
        if match := _MONTHLY.fullmatch(self.when):
            return f"day {match[3]}, {int(match[2]):02}:{int(match[1]):02}"
        return self.when


AUTOMATIC_WORK: Final = (
    AutomaticWork("drops", "every 1 s", "ingest files of drop folders"),
    AutomaticWork("segments", "every 0.25 s", "ingest submitted measurements"),
    AutomaticWork("lost-segments", "every 15 s", "take over those of lost machines"),
    AutomaticWork("uploads", "every 0.25 s", "ingest uploaded files"),
    AutomaticWork("inboxes", "every 30 s", "ingest objects of bucket inboxes"),
    AutomaticWork("scheduled-bills", "every 1 s", "bill where scheduledBillInterval says so"),
    AutomaticWork("scheduled-exports", "every 1 s", "begin exports of schedules"),
    AutomaticWork("bills", "every 1 s", "run bill jobs that wait"),
    AutomaticWork("approvals", "every 60 s", "approve where autoApprove… says so"),
    AutomaticWork("exports", "every 1 s", "run exports that wait"),
    AutomaticWork("statements", "every 1 s", "write statements that wait"),
    AutomaticWork("backfills", "every 1 s", "stage backfills that wait"),
    AutomaticWork("closings", "every 1 s", "go on with closings of the API"),
    AutomaticWork("balances", "every 10 s", "book transactions of schedules"),
    AutomaticWork("notifications", "every 0.5 s", "make notifications of events"),
    AutomaticWork("scheduled-events", "every 5 s", "write events that fall due"),
    AutomaticWork("deliveries", "every 0.25 s", "send to other systems"),
    AutomaticWork("bill-documents", "every 1 s", "write documents of many bills"),
    AutomaticWork("quantities", "every 1 s", "calculate quantities that wait"),
    AutomaticWork("bill-letters", "every 1 s", "send bills by e-mail"),
    AutomaticWork("letters", "every 5 s", "send e-mails"),
    AutomaticWork("alerts", "every 60 s", "look for alerts; tidy up"),
    AutomaticWork("ingest-summary", "2 * * * *", "report the ingest of the hour"),
    AutomaticWork("aggregate", "10 3 * * *", "aggregate the current month"),
    AutomaticWork("aggregate-last", "15 3 * * *", "aggregate the last month"),
    AutomaticWork("export-usage", "20 4 2 * *", "export usage of the last month"),
    AutomaticWork("export-operational", "40 4 * * *", "export configuration and bills"),
    AutomaticWork("publish", "50 * * * *", "publish the analysts' file"),
    AutomaticWork("maintain", "35 * * * *", "maintain the lakes"),
    AutomaticWork("check", "5 5 * * *", "compare the ledgers with the lakes"),
    AutomaticWork("verify", "15 5 * * *", "calculate bills again, compare them"),
)
NAMES: Final = frozenset(each.name for each in AUTOMATIC_WORK)


def check_names(field: str, names: Collection[str]) -> None:
    """Refuse names that nothing has.

    Raises:
        Invalid: One is such; it says the nearest that there is.
    """
    for each in names:
        if each not in NAMES:
            near = get_close_matches(each, NAMES, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            listed = ", ".join(work.name for work in AUTOMATIC_WORK)
            raise Invalid(field, each, f"it must be one of {listed}{hint}")


def left_on(without: Collection[str], *, worker: bool, prefect: bool) -> Iterator[AutomaticWork]:
    """What is done by itself, in the order of the table.

    Args:
        without: What is switched off.
        worker: Whether there is a worker.
        prefect: Whether there is a Prefect server with the schedules.
    """
    for each in AUTOMATIC_WORK:
        if each.name not in without and (prefect if each.needs_prefect else worker):
            yield each
