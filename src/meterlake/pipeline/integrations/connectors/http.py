"""The connector of the destination `HTTP`: a JSON body of one's own to an address of one's own."""

import asyncio
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final
from urllib.parse import quote

from jinja2 import TemplateError
from pydantic import ValidationError

from meterlake.model.configuration.integration_systems import (
    BILL_ID,
    EXTERNAL_ID,
    HTTP,
    DeleteMethod,
)
from meterlake.model.configuration.integrations import (
    CredentialsType,
    ExternalMapping,
    IntegrationCredentials,
)
from meterlake.model.errors import Invalid, Unavailable
from meterlake.model.values import wire
from meterlake.model.values.json_templates import environment, limit_text
from meterlake.model.values.version import code_version
from meterlake.pipeline.integrations.connectors.billed import (
    SentBill,
    forget_mapping,
    read_bill,
    write_mapping,
)
from meterlake.pipeline.integrations.connectors.connector import (
    Exchange,
    Failed,
    FailureKind,
    Outcome,
    Outgoing,
    Sent,
)
from meterlake.pipeline.integrations.connectors.oauth_tokens import TokenCache, basic_header
from meterlake.pipeline.integrations.connectors.safe_answers import (
    MASK,
    Echoes,
    secrets_of,
    web_address,
)
from meterlake.pipeline.integrations.connectors.webhook import describe_request, read_answer
from meterlake.pipeline.integrations.http_client import Headers

BODY_MAX: Final = 4 << 20
SECONDS_MAX: Final = 2.0
_FIELD: Final = "configData.template"
_TABLE: Final = "Bill"
_UNAUTHORIZED: Final = 401
# Of what is to be taken back: it is not there any more.
_GONE: Final = frozenset({404, 410})
_SHOWN: Final = 80


class _TooLongError(Exception):
    """The time is over."""


def render_json(template: str, values: Mapping[str, Any]) -> bytes:
    """The body that a template makes of values.

    Raises:
        Invalid: It cannot be rendered, takes too long, is too large, or is no JSON.
    """
    try:
        text = _render(template, values)
        _check_json(text)
    except _TooLongError:
        raise Invalid(_FIELD, "…", f"it must be rendered within {SECONDS_MAX:g} seconds") from None
    except TemplateError as error:
        raise Invalid(_FIELD, "…", f"it must be a template that can be rendered: {error}") from None
    except Invalid:
        raise
    except Exception as error:  # noqa: BLE001 - what a template does is its own, and the next try would do the same
        raise Invalid(_FIELD, "…", f"it must be a template of JSON: {error}") from None
    return text.encode()


def _check_json(text: str) -> None:
    try:
        wire.loads(text)
    except Invalid as error:
        raise Invalid(_FIELD, "…", f"it must be a template of JSON: {error.args[2]}") from None


def _render(template: str, values: Mapping[str, Any]) -> str:
    end, parts, size = time.monotonic() + SECONDS_MAX, [], 0

    def watch(frame: FrameType, event: str, arg: Any) -> Any:
        del frame, event, arg
        if time.monotonic() > end:
            raise _TooLongError
        return watch

    limit_text()
    compiled = environment().from_string(template)
    before = sys.gettrace()
    # A loop that writes nothing would never come back: every line of it is watched.
    sys.settrace(watch)
    try:
        for part in compiled.generate(values):
            parts.append(part)
            size += len(part)
            if size > BODY_MAX:
                raise Invalid(_FIELD, "…", f"it must have at most {BODY_MAX:,} characters of body")
    finally:
        sys.settrace(before)
    return "".join(parts)


class HttpConnector:
    """Sends bills to an address, and reads from the answer what became of them."""

    declaration: Final = HTTP
    concurrency: Final = 4

    def __init__(self) -> None:
        self._tokens = TokenCache()

    async def send(self, outgoing: Outgoing) -> Outcome:
        """Render the body, sign in, send it, and read the answer."""
        bill = await asyncio.to_thread(read_bill, outgoing)
        if isinstance(bill, Failed):
            return bill
        if (ended := bill.reason_not_to_send) is not None:
            return ended
        options = bill.options
        method, template = options.method.value, options.template
        answered = await self._request(outgoing, bill, method, options.url, template)
        return await answered.keep(outgoing, bill)

    async def take_back(self, outgoing: Outgoing) -> Outcome:
        """Tell it of a bill that is deleted and may be there."""
        bill = await asyncio.to_thread(read_bill, outgoing)
        if isinstance(bill, Failed):
            return bill
        if (ended := bill.reason_not_to_take_back) is not None:
            return ended
        options, external_id = bill.options, bill.mapped("Bill", bill.stored.id)
        is_own = options.delete_url is not None
        method = options.delete_method or (DeleteMethod.DELETE if is_own else options.method)
        if is_own:
            # The address at which a bill is taken back; None if it needs an id that nobody knows.
            if EXTERNAL_ID in options.delete_url and external_id is None:
                url = None
            else:
                named = options.delete_url.replace(BILL_ID, bill.stored.id)
                url = named.replace(EXTERNAL_ID, quote(external_id or "", safe=""))
        else:
            url = options.url
        if url is None:
            error = f"{EXTERNAL_ID} of configData.deleteUrl: the bill has no external id"
            return Failed(kind=FailureKind.INVALID, error=error)
        template = options.delete_template
        answered = await self._request(outgoing, bill, method.value, url, template)
        outcome = answered.outcome
        is_gone = is_own and outcome.exchange.status_code in _GONE
        if isinstance(outcome, Failed) and not is_gone:
            return outcome
        await asyncio.to_thread(forget_mapping, outgoing, "Bill", [bill.stored.id], _TABLE)
        return Sent(exchange=outcome.exchange, external_id=external_id)

    async def _request(
        self, outgoing: Outgoing, bill: SentBill, method: str, url: str, template: str
    ) -> "_Answered":
        """Send what a template makes of a bill."""
        external_id = bill.mapped("Bill", bill.stored.id)
        values = {"bill": bill.document, "account": bill.account, "externalId": external_id}
        found = bill.credentials
        try:
            body = await asyncio.to_thread(render_json, template, values)
            request = _Request(outgoing, bill, method, url, body)
            if found is not None and found.type is CredentialsType.OAUTH_CLIENT_CREDENTIALS:
                return await self._send_with_token(request, found)
            return await request.send(_sign_in(bill))
        except Invalid as error:
            return _Answered(Failed(kind=FailureKind.INVALID, error=str(error)))
        except Unavailable as error:
            return _Answered(Failed(kind=FailureKind.UNAVAILABLE, error=str(error)))

    async def _send_with_token(
        self, request: "_Request", credentials: IntegrationCredentials
    ) -> "_Answered":
        """Send with a token; once more with another one if it is refused."""
        config, outgoing = request.bill.config, request.outgoing
        key = (config.id, config.version)
        token = await self._tokens.get(outgoing, key, credentials)
        if isinstance(token, Failed):
            return _Answered(token)
        answered = await request.send(_bearer(token))
        if answered.outcome.exchange.status_code != _UNAUTHORIZED:
            return answered
        other = await self._tokens.get(outgoing, key, credentials, refused=token)
        if isinstance(other, Failed):
            return _Answered(other)
        return answered if other == token else await request.send(_bearer(other))


@dataclass(frozen=True, slots=True)
class _Answered:
    """What became of a request.

    Attributes:
        echoes: The secrets that the answer may repeat.
        body: The beginning of the answer.
    """

    outcome: Outcome
    echoes: Echoes = field(default_factory=lambda: Echoes(()))
    body: bytes = b""

    async def keep(self, outgoing: Outgoing, bill: SentBill) -> Outcome:
        """Keep what the bill is called there, where the configuration says where the answer has it.

        The receiver has taken the bill: nothing that is wrong with its words makes it come again.
        """
        options, sent = bill.options, self.outcome
        if isinstance(sent, Failed) or options.id_path is None:
            return sent
        external_id = _member_at(self.body, options.id_path)
        why = self._reason_to_refuse(bill, external_id)
        if external_id is None or why is not None:
            error = f"the receiver took the bill, but {why}"
            return Failed(kind=FailureKind.REJECTED, error=error, exchange=sent.exchange)
        url = (
            None
            if options.url_path is None
            else web_address(_member_at(self.body, options.url_path))
        )
        if url is not None and self.echoes.finds(url):
            url = None
        mapping = ("Bill", bill.stored.id, _TABLE, external_id)
        await asyncio.to_thread(write_mapping, outgoing, *mapping)
        return Sent(exchange=sent.exchange, external_id=external_id, url=url)

    def _reason_to_refuse(self, bill: SentBill, external_id: str | None) -> str | None:
        """Why an id cannot be kept."""
        path = bill.options.id_path
        if external_id is None:
            return f"the answer has nothing at {path}"
        if self.echoes.finds(external_id):
            return f"what the answer has at {path} is a credential of the integration"
        try:
            ExternalMapping(
                m3ter_entity="Bill",
                m3ter_id=bill.stored.id,
                external_system=HTTP.name,
                external_table=_TABLE,
                external_id=external_id,
            )
        except ValidationError:
            beginning = ascii(external_id[:_SHOWN])
            size = f"{len(external_id):,} characters"
            return f"what the answer has at {path} is no id: {beginning}… ({size})"
        return None


@dataclass(frozen=True, slots=True)
class _Request:
    """A request of a bill that only has to be signed."""

    outgoing: Outgoing
    bill: SentBill
    method: str
    url: str
    body: bytes

    async def send(self, signed: Headers) -> _Answered:
        """Send it once, and say what the answer means."""
        headers = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json"),
            ("User-Agent", f"meterlake/{code_version()}"),
            ("Idempotency-Key", self.outgoing.idempotency_key),
        ]
        masked = [*headers, *((name, MASK) for name, _ in signed)]
        shown = f"{describe_request(self.method, self.url, masked)}\n\n{self.body.decode()}"
        nothing, client = Exchange(request=shown), self.outgoing.client
        try:
            answer = await client.request(self.method, self.url, [*headers, *signed], self.body)
        except Invalid as error:
            failed = Failed(kind=FailureKind.INVALID, error=str(error), exchange=nothing)
            return _Answered(failed)
        except Unavailable as error:
            failed = Failed(kind=FailureKind.UNAVAILABLE, error=str(error), exchange=nothing)
            return _Answered(failed)
        sent = [value.removeprefix("Basic ").removeprefix("Bearer ") for _, value in signed]
        echoes = Echoes([*sent, *secrets_of(self.bill.credentials)])
        return _Answered(read_answer(answer, shown, echoes), echoes, answer.body)


def _sign_in(bill: SentBill) -> Headers:
    found = bill.credentials
    if found is None:
        return ()
    if found.type is CredentialsType.HTTP_BASIC:
        return [("Authorization", basic_header(found.username, found.password))]
    header = bill.options.key_header
    if header.lower() == "authorization":
        return [(header, f"Bearer {found.api_key}")]
    return [(header, str(found.api_key))]


def _bearer(token: str) -> Headers:
    return [("Authorization", f"Bearer {token}")]


def _member_at(body: bytes, path: str) -> str | None:
    try:
        found: Any = wire.loads(body)
        for step in path.split("."):
            found = found[int(step)] if isinstance(found, list) else found[step]
    except (Invalid, ValueError, TypeError, KeyError, IndexError):
        return None
    is_text = isinstance(found, str | int) and not isinstance(found, bool)
    return str(found) if is_text and found != "" else None
