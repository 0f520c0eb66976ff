"""What an account's bills of the periods that are open would come to now; nothing is stored."""

from typing import Any

from meterlake.model.bills.bill import Bill, Failure
from meterlake.model.bills.jobs import BillJobRequest, BillOrder
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import Account
from meterlake.model.values import wire
from meterlake.pipeline.billing.calculation.reading import read_bills
from meterlake.pipeline.billing.jobs.jobs import resolve_order
from meterlake.pipeline.billing.run import content_of
from meterlake.pipeline.config.entities import Document
from meterlake.stages.bill import selections_of
from meterlake.stores import Organization


def read_spend(organization: Organization, account_id: str) -> Document:
    """The bills of an account's open periods, calculated with the usage and the prices of now.

    Raises:
        NotFound: There is no such account.
        Unavailable: A store failed.
    """
    order = BillOrder(request=BillJobRequest(account_ids=(account_id,)))
    with organization.reading() as reader:
        reader.get(Account, account_id)
        order = resolve_order(reader, order, organization.now())
        [record] = reader.all(OrganizationConfig)
    [selection] = selections_of(order, record.entity)
    found, failures = list[Document](), list[str]()
    reading = read_bills(organization, selection, organization.lake.snapshot())
    for calculation in reading.calculations():
        for account in calculation.made():
            for each in account.made:
                if isinstance(each, Failure):
                    failures.append(each.reason)
                else:
                    found.append(_document(each))
    return {
        "accountId": account_id,
        "asOf": organization.now(),
        "bills": sorted(found, key=lambda each: (each["endDate"], each["currency"])),
        "failures": failures,
    }


def _document(bill: Bill) -> Document:
    content = content_of(bill)
    # Lines on their way to the store are encoded already.
    body: dict[str, Any] = wire.loads(wire.dumps(content.body))
    return {
        "startDate": body["startDate"],
        "endDate": body["endDate"],
        "billDate": content.key.bill_date,
        "currency": content.currency,
        "billTotal": content.total,
        "timezone": body["timezone"],
        "lineItems": [
            {**wire.loads(wire.dumps(each.body)), "sequenceNumber": number}
            for number, each in enumerate(content.lines, start=1)
        ],
    }
