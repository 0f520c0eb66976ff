"""A file to begin with: the columns of a meter's measurements, and one row that shows how."""

import csv
from io import StringIO
from typing import Final

from meterlake.model.catalog.catalog import Meter
from meterlake.model.errors import NotFound
from meterlake.model.measurements.measurement import Field
from meterlake.model.values.period import format_instant
from meterlake.stores import Organization

_ACCOUNT: Final = "customer-code"
_NUMBER: Final = "12.5"
_TEXT: Final = "example"


def file_template(organization: Organization, meter: str) -> str:
    """The first line of a CSV file of measurements of a meter, and an example of a row.

    Args:
        organization: The organization.
        meter: The code of the meter.

    Raises:
        NotFound: There is no such meter.
    """
    with organization.reading() as reader:
        found = reader.find(Meter, meter)
        if found is None:
            raise NotFound("meter", meter)
        fields = found.entity.data_fields
    hour = organization.now().replace(minute=0, second=0, microsecond=0)
    example = {"meter": meter, "account": _ACCOUNT, "uid": "example-1", "ts": format_instant(hour)}
    for each in fields:
        column = Field(each.category, each.code).column
        example[column] = _NUMBER if each.category.numeric else _TEXT
    text = StringIO()
    writer = csv.DictWriter(text, example, lineterminator="\n")
    writer.writeheader()
    writer.writerow(example)
    return text.getvalue()
