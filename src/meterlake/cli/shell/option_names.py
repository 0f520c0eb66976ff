"""What is wrong with a field of the API, told of the option of the command line that gave it."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from meterlake.model.errors import Invalid

# What the API's fields are called on the command line.
_OPTIONS: Final = {
    "name": "--name",
    "code": "CODE",
    "export type": "--type",
    "startDate": "--since",
    "endDate": "--until",
    "timePeriod": "--period",
    "meterIds": "--meter",
    "accountIds": "--account",
    "dimensionFilters": "--filter",
    "aggregations": "--aggregate",
    "groups": "--group",
    "operationalDataTypes": "--type",
    "focus": "--type",
    "month": "--month",
    "destinationIds": "--destination",
    "scheduleType": "--every",
    "period": "--every",
    "offset": "--offset",
    "cronExpression": "--cron",
    "bucketName": "--bucket",
    "prefix": "--prefix",
    "iamRoleArn": "--role-arn",
    "projectNumber": "--project-number",
    "poolId": "--pool",
    "providerId": "--provider",
    "serviceAccountEmail": "--service-account",
}
_IN_RULES: Final = {
    **{name: option for name, option in _OPTIONS.items() if not name.islower()},
    "sourceType": "the source",
    "destinationType": "the type",
}
_NAME: Final = re.compile(rf"\b(?:{'|'.join(_IN_RULES)})\b")


@contextmanager
def as_options(known_by: Callable[[str], str] = str, **others: str) -> Iterator[None]:
    """Have what is wrong with fields of the API told of the options that they were given by.

    Args:
        known_by: What people call the id that is wrong, or the text itself.
        others: Fields that have another option than usually.
    """
    try:
        yield
    except Invalid as error:
        field, value, rule = error.args
        option = {**_OPTIONS, **others}.get(re.split(r"[.\[]", field)[0], field)
        told = _NAME.sub(lambda match: _IN_RULES[match[0]], rule)
        if isinstance(value, str):
            value = known_by(value)
        raise type(error)(option, value, told) from None
