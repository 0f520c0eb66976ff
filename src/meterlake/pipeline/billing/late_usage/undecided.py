"""Late usage that is undecided, as a job reads it: an account of which a row is damaged fails by name."""

from collections.abc import Collection, Mapping, Sequence

from meterlake.model.bills.bill import Failure
from meterlake.model.bills.late_usage import LateUsage
from meterlake.pipeline.billing.run import BillResult
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.late_usage.late_bills import LateBill, late_bills_by_id
from meterlake.stores.state.billing.late_usage.lists import undecided_late_usage
from meterlake.stores.state.core.account_names import by_id
from meterlake.stores.state.core.reader import DamagedRow


def read_undecided(
    reader: Reader, result: BillResult, account_ids: Collection[str] | None
) -> list[LateUsage]:
    """The late usage of bills that something may still be done about.

    Args:
        reader: Of the organization.
        result: What the job came to, to which accounts are added that fail.
        account_ids: Only of bills of these accounts; of all if None.
    """
    found, damaged = undecided_late_usage(reader, account_ids)
    note_damaged(reader, result, damaged)
    return found


def with_readable_bills(
    reader: Reader, result: BillResult, late: Sequence[LateUsage]
) -> tuple[list[LateUsage], dict[str, LateBill]]:
    """Late usage and its bills by their ids; an account with a damaged bill fails, and is left out."""
    damaged: dict[str, DamagedRow] = {}
    bills = late_bills_by_id(reader, {each.bill_id for each in late}, damaged)
    note_damaged(reader, result, damaged)
    kept = [each for each in late if each.account_id not in damaged]
    return kept, {id_: each for id_, each in bills.items() if each.account_id not in damaged}


def note_damaged(reader: Reader, result: BillResult, damaged: Mapping[str, DamagedRow]) -> None:
    """Have accounts fail of which rows are damaged, once for however many looks."""
    known = {(each.account_id, each.reason) for each in result.failures}
    names = by_id(reader, damaged)
    for id_, error in damaged.items():
        if (id_, str(error)) not in known:
            code = names[id_].code if id_ in names else id_
            result.failures.append(Failure(id_, code, str(error)))
