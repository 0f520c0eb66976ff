"""State: everything but the measurements, in one database, with a clock of its own."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Lock, Thread
from typing import Any, Final, Self
from uuid import uuid4

from sqlalchemy import URL, Connection, Row, Select, bindparam, func, insert, or_, select

from meterlake.model.calculation.mistakes import nearest
from meterlake.model.errors import (
    CHECK_PATH,
    DuplicateCode,
    MeterlakeError,
    NotFound,
    Required,
    Unavailable,
)
from meterlake.model.values.entity import Configuration, Entity
from meterlake.settings import Settings
from meterlake.stores.files.durable import disk
from meterlake.stores.secrets import Secrets
from meterlake.stores.state.access import access_tables  # noqa: F401 - their tables are part of METADATA
from meterlake.stores.state.core.engine import Database, migrate, parse_url, sqlite_url
from meterlake.stores.state.core.reader import STORED, Reader, StoredEntity
from meterlake.stores.state.core.tables import ORGANIZATION
from meterlake.stores.state.core.transaction import Transaction
from meterlake.stores.state.events import incidents  # noqa: F401 - their tables are part of METADATA
from meterlake.stores.state.ingest import inbox_tables  # noqa: F401 - their tables are part of METADATA
from meterlake.stores.state.integrations import run_tables  # noqa: F401 - their tables are part of METADATA
from meterlake.stores.state.jobs import Jobs

FILE_NAME = "state.sqlite"


_LOCKED: Final = (
    select(ORGANIZATION.c.id).where(ORGANIZATION.c.id == bindparam("name")).with_for_update()
)
_LISTED_MAX: Final = 10
_SERVER_TIME: Final = select(func.clock_timestamp())
_REFRESH_S: Final = 60.0
# Goes on while a machine sleeps, where the system has such a clock.
_ELAPSED: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def utc_now() -> datetime:
    """The clock that is used where no other is given."""
    return datetime.now(UTC)


def new_id() -> str:
    """A random id."""
    return str(uuid4())


@dataclass(frozen=True, slots=True)
class OrganizationRecord:
    """One organization of a home; its code names its folders."""

    id: str
    code: str
    name: str
    created: datetime


class State:
    """Organizations, their configuration with its history, access, jobs and bills.

    Attributes:
        jobs: The jobs of all organizations.
        now: The clock; where none is given, machines that share a server have its clock.
    """

    def __init__(
        self,
        database: Database,
        now: Callable[[], datetime] = utc_now,
        secrets: Secrets | None = None,
    ) -> None:
        self._database = database
        if now is utc_now and not database.is_file:
            now = ServerClock(self._server_time)
        self.now = now
        self._secrets = secrets
        self.jobs = Jobs(database, now, new_id)

    @classmethod
    def open(
        cls, settings: Settings, now: Callable[[], datetime] = utc_now, *, create: bool = False
    ) -> Self:
        """Open the State of a home and bring it to the newest revision.

        Args:
            settings: Where the home and the database are.
            now: The clock.
            create: Make the home folder and the database if there are none.

        Raises:
            NotFound: There is no such home.
            Unavailable: The database cannot be opened.
        """
        return cls.at(_url(settings, create=create), now, Secrets.of(settings))

    @classmethod
    def at(
        cls, url: URL, now: Callable[[], datetime] = utc_now, secrets: Secrets | None = None
    ) -> Self:
        """Open the State at a database URL, whatever is there, and migrate it."""
        database = Database(url)
        try:
            migrate(database)
        except BaseException:
            database.close()
            raise
        return cls(database, now, secrets)

    def _server_time(self) -> datetime:
        row = self._database.first(_SERVER_TIME, {})
        assert row is not None, "a server that knows no time"
        found: datetime = row[0]
        return found.astimezone(UTC)

    @property
    def secrets(self) -> Secrets:
        """What the secrets of entities are encrypted with."""
        assert self._secrets is not None, "a State without a home holds no secrets"
        return self._secrets

    def close(self) -> None:
        """Close every connection."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def transaction(self, org_id: str, author: str) -> Iterator[Transaction]:
        """Write as an author: everything in the body is kept, or nothing if it raises.

        Writers of one organization take turns; what one reads stays true until it commits.

        Raises:
            NotFound: There is no such organization.
            Unavailable: The database cannot be reached, or another writer did not finish in time.
        """
        with self._database.writing() as connection:
            if connection.execute(_LOCKED, {"name": org_id}).first() is None:
                raise NotFound("organization", org_id)
            transaction = Transaction(connection, org_id, author, self.now(), new_id)
            yield transaction
            transaction.finish()

    @contextmanager
    def reading(self, org_id: str) -> Iterator[Reader]:
        """Read one consistent state of an organization.

        Raises:
            Unavailable: The database cannot be reached.
        """
        with self._database.reading() as connection:
            yield Reader(connection, org_id)

    @contextmanager
    def reading_home(self) -> Iterator[Connection]:
        """Read what belongs to no single organization: people, sessions, keys.

        Raises:
            Unavailable: The database cannot be reached.
        """
        with self._database.reading() as connection:
            yield connection

    @contextmanager
    def writing_home(self) -> Iterator[Connection]:
        """Write what belongs to no single organization; nothing is kept if the body raises.

        Raises:
            Unavailable: The database cannot be reached, or another writer did not finish in time.
        """
        with self._database.writing() as connection:
            yield connection

    @contextmanager
    def lock(self, name: str, refusal: MeterlakeError) -> Iterator[None]:
        """Hold a lock among the machines that share this State, while the body runs.

        Raises:
            MeterlakeError: The refusal: somebody else holds it.
            Unavailable: The database cannot be reached.
        """
        with self._database.lock(name) as taken:
            if not taken:
                raise refusal
            yield

    @property
    def waits_for_nobody(self) -> bool:
        """Whether a look at one entity is a look into a file, not a question over a network."""
        return self._database.is_file

    def first(self, statement: Select[Any], values: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """The first row of a statement that is asked all the time, as the driver gives it.

        Raises:
            Unavailable: The database cannot be reached.
        """
        return self._database.first(statement, values)

    def get_stored(self, org_id: str, kind: type[Entity], id: str) -> StoredEntity:
        """One entity as its table has it.

        Raises:
            NotFound: There is none.
            Unavailable: The database cannot be reached.
        """
        values = {"org": org_id, "kind": kind.__name__, "name": id}
        row = self.first(STORED, values)
        if row is None:
            raise NotFound(kind.__name__, id)
        return StoredEntity(*row)

    def configuration(self, org_id: str, at: datetime | None = None) -> Configuration:
        """All entities of an organization, as they are or as they were at an instant."""
        with self.reading(org_id) as reader:
            return reader.configuration(at)

    @contextmanager
    def new_organization(self, code: str, name: str, author: str) -> Iterator[Transaction]:
        """Create an organization, and write its first entities in the same transaction.

        Raises:
            DuplicateCode: Another organization has the code.
        """
        with self._database.writing() as connection:
            query = select(ORGANIZATION).where(ORGANIZATION.c.code == code)
            owner = connection.execute(query).first()
            if owner is not None:
                raise DuplicateCode("organization", code, owner.name)
            now = self.now()
            org_id = new_id()
            row = {"id": org_id, "code": code, "name": name, "created": now}
            connection.execute(insert(ORGANIZATION), row)
            transaction = Transaction(connection, org_id, author, now, new_id)
            yield transaction
            transaction.finish()

    def organizations(self) -> list[OrganizationRecord]:
        """All organizations, the oldest first."""
        with self._database.reading() as connection:
            query = select(ORGANIZATION).order_by(ORGANIZATION.c.created, ORGANIZATION.c.code)
            return [_organization(row) for row in connection.execute(query)]

    def count_organizations(self) -> int:
        """How many organizations there are; none ever goes away."""
        with self._database.reading() as connection:
            return connection.scalar(select(func.count()).select_from(ORGANIZATION)) or 0

    def organization(self, id_or_code: str | None = None) -> OrganizationRecord:
        """One organization by id or by code; the only one if neither is given.

        Raises:
            NotFound: There is no such organization.
            Required: None is named, and there are several or none.
        """
        if id_or_code is not None and (found := self._named(id_or_code)) is not None:
            return found
        known = self.organizations()
        if id_or_code is None and len(known) == 1:
            return known[0]
        listed = _listed(known)
        if id_or_code is None and known:
            first = known[0].code
            raise Required(
                "--org", None, f"this home has {listed}; name one, such as --org {first}"
            )
        if id_or_code is None:
            raise Required(
                "--org", None, "this home has none; `meterlake init --name NAME` makes one"
            )
        near = nearest(id_or_code, [org.code for org in known])
        meant = f"; did you mean {near!r}?" if near else ""
        if not known:
            raise NotFound(
                "organization",
                id_or_code,
                "; this home has none: `meterlake init --name NAME` makes one",
            )
        raise NotFound(
            "organization", id_or_code, f"; name one that this home has: {listed}{meant}"
        )

    def _named(self, id_or_code: str) -> OrganizationRecord | None:
        """The organization of an id or a code, however many others there are."""
        same = or_(ORGANIZATION.c.id == id_or_code, ORGANIZATION.c.code == id_or_code)
        with self._database.reading() as connection:
            rows = connection.execute(select(ORGANIZATION).where(same)).all()
        return _organization(rows[0]) if len(rows) == 1 else None


def _listed(known: Sequence[OrganizationRecord]) -> str:
    """The codes and names of organizations, of the first ones if they are many.

    >>> _listed([OrganizationRecord("1", "acme", "Acme Inc.", datetime.max)])
    'acme (Acme Inc.)'
    """
    texts = [f"{org.code} ({org.name})" for org in known[:_LISTED_MAX]]
    more = len(known) - len(texts)
    return ", ".join(texts) + (f" and {more:,} more" if more else "")


def _organization(row: Row[tuple[str, str, str, datetime]]) -> OrganizationRecord:
    return OrganizationRecord(row.id, row.code, row.name, row.created)


def _url(settings: Settings, *, create: bool) -> URL:
    if settings.state is not None:
        return parse_url(settings.state)
    file = settings.home.absolute() / FILE_NAME
    if create:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable("the home folder", str(error), CHECK_PATH) from error
        # Readable for its owner alone: it names people. One that is there is not opened: to close
        # it would end the locks that SQLite has on it for all connections of this process, and
        # another process would remove the log that these still read.
        with disk(), suppress(FileExistsError):
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    elif not file.exists():
        hint = "; `meterlake init --name NAME` makes one"
        raise NotFound("meterlake home", str(settings.home), hint)
    return sqlite_url(file)


def elapsed() -> float:
    """Seconds since some moment; nobody sets this clock."""
    return time.clock_gettime(_ELAPSED)


class ServerClock:
    """The time of a server: asked for once, counted on, and compared now and then.

    A lease, a due time or a token means the same on every machine, also where their own clocks
    differ by minutes. Nobody waits for a comparison: the server may not answer.

    Args:
        ask: The server's time; raises `Unavailable`.
        count: A clock of this machine that nobody sets.
    """

    def __init__(self, ask: Callable[[], datetime], count: Callable[[], float] = elapsed) -> None:
        self._ask = ask
        self._count = count
        self._comparing = Lock()
        self._known = self._compare()

    def __call__(self) -> datetime:
        """The server's time, as far as it is known."""
        at, moment = self._known
        count = self._count()
        if count - at >= _REFRESH_S and self._comparing.acquire(blocking=False):
            Thread(target=self._refresh, name="server clock", daemon=True).start()
        return moment + timedelta(seconds=count - at)

    def _compare(self) -> tuple[float, datetime]:
        before = self._count()
        moment = self._ask()
        # On its way back the answer grew old by half of what the question took.
        return (before + self._count()) / 2, moment

    def _refresh(self) -> None:
        try:
            self._known = self._compare()
        except Unavailable:
            at, moment = self._known
            count = self._count()
            self._known = count, moment + timedelta(seconds=count - at)
        finally:
            self._comparing.release()
