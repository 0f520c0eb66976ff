"""Everything that can go wrong and is somebody's to fix, as one tree.

Bad rows are not here: they are rows of ``rejected``, for a `Reason` of `model/measurements/rejection.py`. Nor is
bad code: assertions.

* MeterlakeError
    * Invalid               400  a request or configuration breaks a rule
        * Required                 a field that must be there is absent
        * UnknownField             a document has a name that means nothing
        * InvalidConfiguration     several rules are broken at once
        * UnreadableConfiguration  a configuration file is not YAML or JSON of the right shape
        * UnreadableMapping        a mapping file cannot be used
        * BadQuery                 a query is no single SELECT, or DuckDB cannot run it
        * BadTemplate              the template of a document cannot be used
        * NoGlyph                  a document has a character that no font can show
        * UnreadableSource         a whole file of measurements cannot be read
    * Unauthorized          401  nobody knows who asks
    * Forbidden             403  who asks may not do this
    * NotFound              404  there is no such thing
    * TooSlow               408  a request did not come in time
    * Conflict              409  the state of the world speaks against it
        * StaleVersion             someone else updated the entity since the caller read it
        * DuplicateCode            the code belongs to another entity of its kind
        * StillReferenced          something still refers to what is to be deleted
        * Locked                   the bill, or its date, is locked
        * UnbalancedBill           the numbers of a bill do not add up: no document shows it
        * Busy                     another process does this at the moment
        * KeyReused                a key came with another request before
        * NotAnswered              nobody knows what became of the request that had the key
        * ObjectExists             an object of that name has other content
            * FileSent             the file of an upload came already
    * TooLarge              413  more than is read at once
    * Unsupported           415  a content type or encoding that is not read
    * TooMany               429  who asks does so too often
        * TooManyJobs              as many jobs as may be are unfinished
    * UnbalancedBooks       500  what is about to be stored is not what was counted
    * NotAvailable          501  the contract knows it, this version does not do it yet
    * Unavailable           503  the world failed; the only one that is worth a retry
        * RunnerUnavailable        what carries the tasks of a fan-out was lost, or lost all of one
"""

from typing import ClassVar, Final, Self

from meterlake.model.errors.values import SHOWN_MAX, display_value, find_remedy

_NAME_MAX: Final = 300
# What to do about a file that the system does not give.
CHECK_PATH: Final = "check its path, and that you may read and write there"


class MeterlakeError(Exception):
    """Base class; `args` hold the facts, `text` turns them into a sentence.

    Attributes:
        problems: What it stands for, where it stands for several.
        place: Where in configuration files it was found, if its sentence does not say so.
    """

    status: ClassVar[int] = 500
    text: ClassVar[str] = "{0}"
    problems: "tuple[MeterlakeError, ...]" = ()
    place: str = ""

    def __str__(self) -> str:
        return self.text.format(*self.args)


class Invalid(MeterlakeError):
    """A value breaks a rule; the sentence names the field, the value and the rule.

    The rule is a sentence of its own: "it must be 1 or more", "leave it out when you give --to".
    """

    status = 400
    text = "{0}: {1!r} is not allowed: {2}"

    def __init__(self, field: str, value: object, rule: str) -> None:
        super().__init__(field, value, rule)

    def __str__(self) -> str:
        field, value, rule = self.args
        if value is True and str(field).startswith("--"):
            return f"{field} is not allowed here: {rule}"  # An option without a value.
        return self.text.format(field, display_value(value), rule)


class Required(Invalid):
    """A field that must be there is absent."""

    text = "{0} is required"

    def __init__(self, field: str, value: object = None, rule: str = "required") -> None:
        super().__init__(field, value, rule)

    def __str__(self) -> str:
        field, _, rule = self.args
        return self.text.format(field) + ("" if rule == "required" else f": {rule}")


class UnknownField(Invalid):
    """A document has a name that means nothing; the rule says which name may be meant."""

    text = "{0} is unknown: {2}"


class InvalidConfiguration(Invalid):
    """Several rules are broken at once; the sentence holds the first few."""

    text = "{0}: {2}"


class UnreadableConfiguration(Invalid):
    """A configuration file is not YAML or JSON, or not of the expected shape.

    Attributes:
        line: The line where that was found, from 1, if it is known.
    """

    text = "configuration {0}: {2}"
    line: int | None = None


class UnreadableMapping(Invalid):
    """A mapping file is not YAML or JSON, or not of the expected shape."""

    text = "mapping {0}: {2}"


class BadQuery(Invalid):
    """A query is not one reading statement, or DuckDB cannot run it."""

    text = "query: {2}"


class BadTemplate(Invalid):
    """The template of a document cannot be read, or fails; the rule says where and why."""

    text = "template {0}: {2}"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, name, reason)

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        """Survive the way between processes, with the arguments that it was made of."""
        name, _, reason = self.args
        return type(self), (name, reason)


class NoGlyph(Invalid):
    """A document has a character that none of its fonts can show."""

    text = "{0} has {1}, which no font of the document can show; {2}"

    def __init__(self, field: str, character: str, remedy: str) -> None:
        super().__init__(field, character, remedy)

    def __str__(self) -> str:
        return self.text.format(*self.args)


class UnreadableSource(MeterlakeError):
    """A file of measurements cannot be read at all; nothing of it is stored."""

    status = 400
    text = "{0}: {1}: {2}"

    def __init__(self, name: str, reason: str, detail: str) -> None:
        super().__init__(name, reason, detail)

    @property
    def reason(self) -> str:
        """The reason code, as in `rejected` and the reports."""
        return str(self.args[1])

    @property
    def detail(self) -> str:
        """What exactly was found."""
        return str(self.args[2])


class Unauthorized(MeterlakeError):
    """Nobody knows who asks: credentials or a token are missing, malformed, forged or revoked."""

    status = 401


class Forbidden(MeterlakeError):
    """Who asks is known, or was, but may not do this."""

    status = 403


class NotFound(MeterlakeError):
    """There is no such entity, organization, file or bucket."""

    status = 404
    text = "no {0} {1!r}{2}"

    def __init__(self, kind: str, id: str, hint: str = "") -> None:
        """The hint says what to do, from its first sign on; without one the kind says it."""
        super().__init__(kind, id, hint)

    def __str__(self) -> str:
        kind, id_, hint = self.args
        # Longer than a value: of a path the end matters.
        shown = id_ if len(str(id_)) <= _NAME_MAX else f"{id_[:_NAME_MAX]}…"
        return self.text.format(kind, shown, hint or f"; {find_remedy(kind, id_)}")


class Conflict(MeterlakeError):
    """The request is well formed, but the state of the world speaks against it."""

    status = 409


class StaleVersion(Conflict):
    """Someone else updated the entity since the caller read it."""

    text = (
        "{0} {1!r} is at version {2}, not {3}: somebody changed it since; read it again, and repeat"
        " your change"
    )

    def __init__(self, kind: str, id: str, stored: int, given: int) -> None:
        super().__init__(kind, id, stored, given)


class DuplicateCode(Conflict):
    """The code belongs to another entity of the same kind."""

    text = "{0} code {1!r} belongs to {2} already; choose another code"

    def __init__(self, kind: str, code: str, owner: str) -> None:
        super().__init__(kind, code, owner)


class StillReferenced(Conflict):
    """Something still refers to what is to be deleted."""

    text = "{0} {1!r} is still referenced by {2}, which has to go or to change first"

    def __init__(self, kind: str, id: str, by: str) -> None:
        super().__init__(kind, id, by)


class Locked(Conflict):
    """The bill, or the date it falls on, is locked."""

    text = "{0} {1!r} is locked and stays as it is; correct it with a credit or a debit line item"

    def __init__(self, kind: str, id: str) -> None:
        super().__init__(kind, id)


class UnbalancedBill(Conflict):
    """The numbers of a bill do not add up, so that no document may show it."""

    text = (
        "bill {0!r} has no document: the sum of {1} is {2}, and not {3};"
        " `meterlake bill verify {0}`, or `GET /bills/{0}/verify`, names what differs"
    )

    def __init__(self, bill_id: str, what: str, found: str, due: str) -> None:
        super().__init__(bill_id, what, found, due)


class Busy(Conflict):
    """Another process does this at the moment."""

    text = "{0} is busy: {1}"

    def __init__(self, what: str, detail: str) -> None:
        super().__init__(what, detail)


class KeyReused(Conflict):
    """The key came with a request that asked for something else."""

    text = (
        "Idempotency-Key {0!r} came with another request before; send a new key with each request"
    )

    def __init__(self, key: str) -> None:
        super().__init__(key)


class NotAnswered(Conflict):
    """The request that came with the key first has not ended, or nobody knows how it did."""

    text = (
        "the first request with Idempotency-Key {0!r} has not ended, or its answer is not known;"
        " look whether it did what you want before you send it with a new key"
    )

    def __init__(self, key: str) -> None:
        super().__init__(key)


class CannotMove(Conflict):
    """A lake cannot go where it should, or did not arrive as it was."""

    text = "the lake cannot be moved: {0}"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class ObjectExists(Conflict):
    """Something else is stored already under the name that was to be created."""

    text = "{0} exists already with other content; choose another name"

    def __init__(self, url: str) -> None:
        super().__init__(url)


class FileSent(ObjectExists):
    """The file of an upload is there already, whatever is sent now."""

    text = "the file of upload job {0!r} is there already: its URL works once; begin another upload"


class TooMany(MeterlakeError):
    """Who asks does so more often than a limit allows; `retry_after` is in seconds, 1 or more."""

    status = 429
    text = "{0}: too many requests; try again in {1} s"

    def __init__(self, limit: str, retry_after: int) -> None:
        super().__init__(limit, retry_after)

    @property
    def retry_after(self) -> int:
        """After how many seconds the next request is let through."""
        return int(self.args[1])


class TooManyJobs(TooMany):
    """As many jobs of an organization as may be wait or run; another one may come later."""

    text = "{0}: {1} of them are unfinished, and no more may be; try again when one has ended"

    def __init__(self, what: str, most: int, retry_after: int) -> None:
        MeterlakeError.__init__(self, what, most, retry_after)

    @property
    def retry_after(self) -> int:
        """After how many seconds it is worth a try."""
        return int(self.args[2])


class TooSlow(MeterlakeError):
    """A request did not come to its end in time."""

    status = 408
    text = "the {0} of the request did not come within {1} s; send the request again"

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(what, seconds)


class TooLarge(MeterlakeError):
    """A request carries more than is read at once."""

    status = 413
    text = "{0} is larger than {1} bytes; send it in smaller parts"

    def __init__(self, what: str, most: int) -> None:
        super().__init__(what, most)


class Unsupported(MeterlakeError):
    """A request comes in a form that is not read."""

    status = 415
    text = "{0} {1!r} is not supported; send {2}"

    def __init__(self, what: str, given: str, expected: str) -> None:
        super().__init__(what, given[:SHOWN_MAX], expected)


class NotReconciled(MeterlakeError):
    """The rows of a source are not as many as its receipt says; nothing of it is stored."""

    text = (
        "nothing of {0} was stored: {2} rows for the table {1} were counted while the file was"
        " read, but {3} are there; deliver the file again, and report it if this comes back"
    )

    def __init__(self, name: str, what: str, counted: int, found: int) -> None:
        super().__init__(name, what, counted, found)


class NotAvailable(MeterlakeError):
    """The contract knows it, but this version of meterlake does not do it yet."""

    status = 501
    text = "{0} is not available in this version: {1}"

    def __init__(self, what: str, detail: str) -> None:
        super().__init__(what, detail)


class Unavailable(MeterlakeError):
    """The world outside failed: a store, a disk, a network. Worth another try."""

    status = 503
    text = "{0} is unavailable: {1}; {2}"

    def __init__(self, what: str, detail: str, remedy: str = "try again in a minute") -> None:
        super().__init__(what, detail, remedy)


class RunnerUnavailable(Unavailable):
    """What carries the tasks of a fan-out cannot be reached, or dies of a task again and again.

    Whoever runs the work tries again, not the work itself: the runner has waited for long already.
    """
