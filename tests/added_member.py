"""What everything shows of a line if their table of members has one row more.

A program, since every module reads the table when it is imported:

    python -m tests.added_member FOLDER
"""

import csv
import json
import sys
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from meterlake.model.bills import members as bill_members
from meterlake.model.bills.members import BillMember, ShownIn
from meterlake.model.values.fields import Text

NAME: Final = "costCentre"
VALUE: Final = "R&D"
MEANING: Final = "Who pays for it at the customer."
EVERYWHERE: Final = ~ShownIn.EVENT  # Events show bills without their lines.
FIRST: Final = date(2026, 3, 1)
DAYS: Final = {"startDate": "2026-03-01T00:00:00Z", "endDate": "2026-04-01T00:00:00Z"}


def add_row() -> None:
    """Put the row into the table, before anything has read it."""
    assert "meterlake.model.bills.response" not in sys.modules
    row = BillMember(NAME, Text, EVERYWHERE, MEANING, focus="x_CostCentre")
    bill_members.LINE_MEMBERS = (*bill_members.LINE_MEMBERS, row)


def store_bill(organization: Any) -> str:
    """Store a bill whose line has the member; its id."""
    from meterlake.model.bills.bill import LineItemType
    from meterlake.model.bills.requests import BillStatus
    from meterlake.model.customers.accounts import Account
    from meterlake.pipeline.billing.run import content_of
    from meterlake.stores.state.billing.bills.batch import put_all
    from tests.bill_lines import a_bill, a_line

    line = a_line(LineItemType.STANDING_CHARGE, "31", FIRST, None, {NAME: VALUE})
    with organization.transaction("test") as transaction:
        account = transaction.find(Account, "acme")
        content = content_of(a_bill(account.id, line))
        [made] = put_all(transaction, [content], BillStatus.APPROVED)
    return str(made.bill_id)


def shown(server: Any, bill_id: str) -> dict[str, Any]:
    """What each output shows of the member, and says about it."""
    import duckdb

    from meterlake.api import openapi
    from meterlake.cli.reference import dictionary
    from meterlake.pipeline.publish.run import publish
    from tests.bill_lines import downloaded, exported
    from tests.statement_world import content_of, document_of

    with server.http() as http:
        [embedded] = http.get(f"/bills/{bill_id}").json()["lineItems"]
        [alone] = http.get(f"/bills/{bill_id}/lineitems").json()["data"]
        [row] = downloaded(http, DAYS)
    found = {"bill": embedded[NAME], "line": alone[NAME], "csv": row[NAME]}
    found["export"] = json.loads(exported(server, "billLineItems", "jsonl"))[NAME]
    [cells] = csv.DictReader(exported(server, "billLineItems", "csv").splitlines())
    [focus] = csv.DictReader(exported(server, "focus", "csv").splitlines())
    [line] = document_of(content_of(server, bill_id))["lines"]
    found |= {"exported csv": cells[NAME], "focus": focus["x_CostCentre"], "statement": line[NAME]}
    schemas = json.loads(openapi.encode_document())["components"]["schemas"]
    for name in ("BillLineItem", "BillLineItemResponse"):
        found[name] = schemas[name]["properties"][NAME]["type"]
    path = publish(server.organization).path
    with closing(duckdb.connect(str(path), read_only=True)) as warehouse:
        [(found["published"],)] = warehouse.execute("SELECT cost_centre FROM bill_line").fetchall()
        question = "SELECT type, meaning FROM dictionary WHERE column_name = 'cost_centre'"
        found["dictionary"] = warehouse.execute(question).fetchall()
    found["page"] = [each for each in dictionary().splitlines() if "cost_centre" in each]
    found["memo"] = memo_of({**embedded, "convertedSubtotal": 31})
    return found


def memo_of(line: dict[str, Any]) -> Any:
    """What a memo of late usage about a line shows of the member."""
    from meterlake.stages.bill.late_usage import ChargedLine, LineDifference, memo_to_carry

    difference = LineDifference(ChargedLine("key", line), Decimal(1), is_billed=True)
    times = (datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))
    memo = memo_to_carry(difference, Decimal(1), "USD", line["id"], line["id"], times)
    return memo.line[NAME]


def main(folder: Path) -> None:
    """Write what is shown."""
    add_row()
    from tests.homes import ACCOUNTS, configure
    from tests.served import served

    with served(folder / "home") as server:
        configure(server.organization, accounts=ACCOUNTS)
        found = shown(server, store_bill(server.organization))
    (folder / "shown.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
