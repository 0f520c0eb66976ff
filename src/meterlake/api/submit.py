"""Submit Measurements: a batch is on the disk before it is answered.

The hot path reads the body twice with msgspec: once into structs, to check its shape, and once
into the raw texts of its measurements, which are stored as they came. Only for a body that is
refused is it read a third time, to say which value of which measurement is wrong.
"""

import asyncio
import re
import sys
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import msgspec

from meterlake.api.server import body
from meterlake.api.server.call import ORGANIZATION, Call, Operation
from meterlake.model.errors import Forbidden, Invalid, Required, TooLarge, TooMany
from meterlake.model.measurements.measurement import BATCH_MAX, UID_MAX
from meterlake.model.values.ids import CODE_MAX, is_code
from meterlake.model.values.period import parse_instant

PAYLOAD_MAX: Final = 511_999
_CODES_KNOWN: Final = 10_000
_PATH: Final = re.compile(r"\[[0-9]+\]|\[\.\.\.\]|[^.\[\]$]+")
# No number of the lake comes near it.
_FLOAT_MAX: Final = Decimal(sys.float_info.max)
_BREAKS_TO_SPACES: Final = bytes.maketrans(b"\r\n", b"  ")
# A day that every month has, in UTC: for all others there is the whole grammar.
_PLAIN_INSTANTS: Final = re.compile(
    r"(?:[1-9][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?Z\n)*+"
)

_Texts = dict[str, str]
_Numbers = dict[str, float]


class _Measurement(msgspec.Struct, gc=False):
    meter: str
    account: str
    ts: str
    uid: str | None = None
    ets: str | None = None
    who: _Texts | None = None
    where: _Texts | None = None
    what: _Texts | None = None
    other: _Texts | None = None
    metadata: _Texts | None = None
    measure: _Numbers | None = None
    cost: _Numbers | None = None
    income: _Numbers | None = None


class _Shaped(msgspec.Struct):
    measurements: list[_Measurement]


class _Texted(msgspec.Struct):
    measurements: list[msgspec.Raw]


_shaped: Final = msgspec.json.Decoder(_Shaped)
_texted: Final = msgspec.json.Decoder(_Texted)
_known_code: Final = lru_cache(_CODES_KNOWN)(is_code)


async def submit(call: Call) -> dict[str, str]:
    """Take a batch of measurements.

    Raises:
        Invalid: The batch has not the right shape.
        Forbidden: It is too large.
        TooMany: More waits to be ingested than the settings allow.
    """
    request, segments = call.request, call.stores.segments
    body.check_type(request.headers.get("content-type", ""))
    try:
        data = await body.content(request, PAYLOAD_MAX)
    except TooLarge:
        raise Forbidden(
            f"a payload must be under {PAYLOAD_MAX + 1:,} bytes; send it in several requests"
        ) from None
    measurements = texts(data)
    if segments.full(call.org_id):
        raise TooMany("measurements wait to be ingested", 1)
    await asyncio.wrap_future(segments.append(call.org_id, measurements))
    return {"result": "accepted"}


def texts(data: bytes) -> list[msgspec.Raw]:
    """The texts of a batch's measurements, one line each.

    Raises:
        Invalid: The batch has not the right shape.
    """
    try:
        if not data.isascii():
            data.decode()  # msgspec looks only at what it keeps.
        found = _shaped.decode(data).measurements
    except msgspec.ValidationError as error:
        raise _wrong_shape(data, str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        shown = data[:80].decode("utf-8", "replace")
        raise Invalid("body", shown, f"it must be JSON: {error}") from None
    if not 1 <= len(found) <= BATCH_MAX:
        raise Invalid("measurements", f"{len(found)} measurements", f"it must be 1 to {BATCH_MAX}")
    if not _surely_right(found):
        for index, measurement in enumerate(found):
            _check(measurement, index)
    if b"\n" in data or b"\r" in data:
        # No text of JSON holds a line break: they are white space.
        data = data.translate(_BREAKS_TO_SPACES)
    return _texted.decode(data).measurements


def _surely_right(found: list[_Measurement]) -> bool:
    """Whether no measurement needs to be looked at singly: asked of all at once, it costs little."""
    instants = [each.ts for each in found]
    instants += [each.ets for each in found if each.ets is not None]
    codes = {each.meter for each in found} | {each.account for each in found}
    uids = [each.uid for each in found if each.uid is not None]
    lines = "\n".join([*instants, ""])
    return (
        lines.count("\n") == len(instants)
        and _PLAIN_INSTANTS.fullmatch(lines) is not None
        and all(map(_known_code, codes))
        and all(1 <= length <= UID_MAX for length in map(len, uids))
        and "\x00" not in "".join(uids)
    )


def _check(found: _Measurement, index: int) -> None:
    if not (_known_code(found.meter) and _known_code(found.account)):
        name = "account" if _known_code(found.meter) else "meter"
        rule = f"it must be a code: 1 to {CODE_MAX} characters, no space at either end"
        raise Invalid(f"measurements[{index}].{name}", getattr(found, name), rule)
    if parse_instant(found.ts) is None:
        raise _no_instant(index, "ts", found.ts)
    if found.ets is not None and parse_instant(found.ets) is None:
        raise _no_instant(index, "ets", found.ets)
    uid = found.uid
    if uid is not None and (not 1 <= len(uid) <= UID_MAX or "\x00" in uid):
        rule = f"it must have 1 to {UID_MAX} characters without NUL"
        raise Invalid(f"measurements[{index}].uid", uid, rule)


def _no_instant(index: int, name: str, value: str) -> Invalid:
    rule = "it must be an ISO 8601 instant such as 2026-10-01T12:00:00Z"
    return Invalid(f"measurements[{index}].{name}", value, rule)


def _wrong_shape(data: bytes, problem: str) -> Invalid:
    """The error that names the place in our words: msgspec's say `$.measurements[3].measure[...]`."""
    message, _, where = problem.partition(" - at `$")
    missing = re.fullmatch(r"Object missing required field `(\w+)`", message)
    name, value = _found_at(body.parse(data), where.removesuffix("`"))
    if missing:
        return Required(f"{name}.{missing[1]}" if name else missing[1])
    expected = re.match(r"Expected `([^`]+)`", message)
    rule = (
        _KINDS.get(expected[1].partition(" ")[0], message)
        if expected
        else "it must be a number in range"
    )
    return Invalid(name or "body", value, rule)


_KINDS: Final = {
    "str": "it must be a text",
    "float": "it must be a number",
    "object": "it must be a JSON object",
    "array": "it must be an array",
}


def _found_at(document: Any, where: str) -> tuple[str, Any]:
    """The name and the value of what a path of msgspec leads to."""
    name, value = "", document
    for step in _PATH.findall(where):
        if step == "[...]":
            numeric = name.rpartition(".")[2] in {"measure", "cost", "income"}
            code = next(each for each in value if not _fits(value[each], numeric=numeric))
            name, value = f"{name}.{code[:CODE_MAX]}", value[code]
        elif step.startswith("["):
            name, value = f"{name}{step}", value[int(step[1:-1])]
        else:
            name, value = f"{name}.{step}" if name else step, value[step]
    return name, value


def _fits(value: Any, *, numeric: bool) -> bool:
    if not numeric:
        return isinstance(value, str)
    number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    # No `abs`: it rounds, which a Decimal of 10**999999999 does not survive.
    return number and -_FLOAT_MAX <= value <= _FLOAT_MAX


OPERATIONS: Final = (
    Operation(
        "SubmitMeasurements",
        "POST",
        f"{ORGANIZATION}/measurements",
        "measurements:upload",
        "measurements",
        submit,
        limit="ingest",
    ),
)
