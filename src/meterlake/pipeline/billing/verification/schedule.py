"""Bills that are verified by themselves, every night: those approved lately, and a sample of all."""

from datetime import timedelta
from typing import Final

from meterlake.model.bills.verification import BillVerification
from meterlake.model.resources.events import VERIFICATION_ALERT
from meterlake.pipeline.billing.verification.verify import VerifyChoice, verify_bills
from meterlake.pipeline.events.incidents import resolve
from meterlake.stores import Organization
from meterlake.stores.state.billing.calculations.verified import sample_bills

# A night that begins late leaves no bill out.
_LATELY: Final = timedelta(hours=26)
_SAMPLE: Final = 100
# An event is no report: it names the first differences.
_TOLD_MAX: Final = 10


def verify_regularly(organization: Organization, sample: int = _SAMPLE) -> BillVerification:
    """Verify the bills that were approved within a day, and some others; a difference is an incident.

    The incident is over when all of these bills are what they were.

    Raises:
        Unavailable: A store failed.
    """
    lately = verify_bills(organization, VerifyChoice(approved_since=organization.now() - _LATELY))
    with organization.reading() as reader:
        ids = tuple(sample_bills(reader, sample))
    others = verify_bills(organization, VerifyChoice(bill_ids=ids)) if ids else BillVerification()
    result = _merge(lately, others)
    found = {}
    if not result.is_same:
        shown = [str(each) for each in result.differences[:_TOLD_MAX]]
        message = f"bills are not what they were: {shown[0]}"
        found[VERIFICATION_ALERT, organization.id] = {"message": message, "differences": shown}
    resolve(organization, (VERIFICATION_ALERT,), found)
    return result


def _merge(one: BillVerification, other: BillVerification) -> BillVerification:
    return BillVerification(
        one.verified + other.verified,
        [*one.unpinned, *other.unpinned],
        one.other_code + other.other_code,
        list({str(each): each for each in (*one.differences, *other.differences)}.values()),
    )
