"""A catalog in PostgreSQL: a schema for each lake, a lock and a number that fences writers off.

The lock is an advisory one of a session of its own: the server frees it when the process dies or
its network is cut. Whoever takes it writes a new token into the lake's row. A trigger compares that
token with the one that a commit carries, in the transaction of the commit: a writer that lost the
lock without noticing, as after a pause or a failover, cannot commit any more.
"""

import hashlib
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from types import MappingProxyType
from typing import Final

import duckdb
from sqlalchemy import URL, Connection, NullPool, create_engine
from sqlalchemy.exc import DBAPIError, PendingRollbackError

from meterlake.model.errors import Busy, Invalid
from meterlake.model.values.sql import quote
from meterlake.stores.lake.backends.catalog import Catalog
from meterlake.stores.state.core.engine import (
    connection_options,
    parse_url,
    place,
    translate_errors,
)
from meterlake.stores.state.core.pool import (
    POOL_IDLE,
    POOL_MAX,
    WAIT_SECONDS,
    leave_pool,
    share_pool,
)

# The rows of writers and the function that compares their tokens, for all lakes of a database.
_SCHEMA: Final = "meterlake_lakes"
_NAME: Final = "the catalog of lakes"
_CONNECT_SECONDS: Final = 5
_DROP_SECONDS: Final = 10
_PAUSE_S: Final = (0.005, 0.1)
_RETRIES: Final = {"max_retry_count": 100, "retry_wait_ms": 20, "retry_backoff": 1.0}
# How many connections a DuckDB has at most for each database that it has attached, whatever machine
# it is on. Who finds all of them in use waits; each transaction, also a commit, needs one.
DUCKDB_MAX: Final = POOL_MAX
# What nobody uses is closed after a while: a process at rest needs none.
DUCKDB_IDLE_SECONDS: Final = 10
_SETUP_LOCK: Final = 4706352988
# DuckLake takes these words, in English, for a conflict that it may try again.
_ENGLISH: Final = ("", "C", "POSIX", "C.UTF-8", "C.utf8")

_TABLE: Final = f"""
CREATE SCHEMA IF NOT EXISTS {_SCHEMA};
CREATE TABLE IF NOT EXISTS {_SCHEMA}.writer (
    lake text PRIMARY KEY, fence bigint NOT NULL, token text NOT NULL, moved_to text
);"""
# The lock on the row holds off whoever takes the lake over until the commit is done. Where somebody
# did so after the commit's transaction began, the server refuses the lock on the row.
_FUNCTION: Final = f"""
CREATE OR REPLACE FUNCTION {_SCHEMA}.check_writer() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE known text;
BEGIN
    SELECT token INTO known FROM {_SCHEMA}.writer WHERE lake = TG_TABLE_SCHEMA FOR SHARE;
    IF NEW.commit_extra_info IS DISTINCT FROM known THEN
        RAISE EXCEPTION 'meterlake: this writer of %% has been replaced', TG_TABLE_SCHEMA;
    END IF;
    RETURN NEW;
END $$;"""
_TRIGGER: Final = """
CREATE OR REPLACE TRIGGER meterlake_writer BEFORE INSERT ON "{schema}".ducklake_snapshot_changes
FOR EACH ROW EXECUTE FUNCTION {functions}.check_writer();"""
_TAKE: Final = f"""
UPDATE {_SCHEMA}.writer SET fence = fence + 1, token = %(token)s WHERE lake = %(lake)s
RETURNING moved_to"""
_MOVED: Final = f"UPDATE {_SCHEMA}.writer SET moved_to = %(target)s WHERE lake = %(lake)s"


class PostgresCatalog(Catalog):
    """A catalog in a schema of a database of PostgreSQL."""

    extension = "postgres_scanner"
    inlined_types = MappingProxyType(
        {
            "int64": "BIGINT",
            "int32": "INTEGER",
            "int16": "SMALLINT",
            "boolean": "BOOLEAN",
            "decimal(38,12)": "DECIMAL(38,12)",
            # Texts may hold what PostgreSQL's do not.
            "varchar": "BLOB",
            **dict.fromkeys(("uint64", "timestamp"), "VARCHAR"),
        }
    )

    def __init__(self, url: str, lake: str) -> None:
        self.url = parse_catalog_url(url)
        self._schema = schema_of(lake)
        self._token: str | None = None
        self._moved_to: str | None = None
        self._exists = False
        self._is_set_up = False
        # Of a process that has many lakes, few hold their locks at a time: each of those has a
        # connection for as long, and two are kept.
        self._pool = share_pool(
            self.url,
            "catalog",
            lambda: create_engine(
                self.url,
                isolation_level="AUTOCOMMIT",
                pool_pre_ping=True,
                pool_size=POOL_IDLE,
                max_overflow=-1,
                connect_args=connection_options(self.url, _CONNECT_SECONDS),
            ),
            None,
        )
        self._is_closed = False

    @property
    def schema(self) -> str:
        """See `Catalog.schema`."""
        return self._schema

    @property
    def is_local(self) -> bool:
        """See `Catalog.is_local`."""
        return False

    @cached_property
    def _key(self) -> int:
        digest = hashlib.sha256(f"meterlake {self._schema}".encode()).digest()
        return int.from_bytes(digest[:8], signed=True)

    @contextmanager
    def _session(self) -> Iterator[Connection]:
        """A session in which each statement is a transaction of its own.

        Raises:
            Unavailable: Nobody answers.
            Invalid: The server speaks another language than English.
        """
        with (
            translate_errors(name=f"{_NAME}{place(self.url)}"),
            self._pool.engine.connect() as session,
        ):
            if not self._is_set_up:
                _set_up(session)
                self._is_set_up = True
            yield session

    def exists(self) -> bool:
        """See `Catalog.exists`; a lake that was there stays."""
        if not self._exists:
            with self._session() as session:
                found = session.exec_driver_sql(
                    "SELECT count(*) FROM information_schema.tables"
                    " WHERE table_schema = %s AND table_name = 'ducklake_snapshot'",
                    (self._schema,),
                ).scalar()
            self._exists = bool(found)
        return self._exists

    def create(self) -> None:
        """See `Catalog.create`; DuckLake makes the schema."""

    def close(self) -> None:
        """See `Catalog.close`."""
        if not self._is_closed:
            leave_pool(self._pool)
        self._is_closed = True

    def guard(self) -> None:
        """See `Catalog.guard`."""
        with self._session() as session:
            session.exec_driver_sql(_TRIGGER.format(schema=self._schema, functions=_SCHEMA))

    def secrets(self) -> Iterator[str]:
        """See `Catalog.secrets`; what libpq finds by itself is left to it. How many there are, too."""
        names = {"host": self.url.host, "port": self.url.port, "user": self.url.username}
        given = {**names, "password": self.url.password, "database": self.url.database}
        listed = ", ".join(f"{name} {quote(str(each))}" for name, each in given.items() if each)
        yield f"CREATE OR REPLACE SECRET meterlake_catalog (TYPE postgres, {listed})"
        # They are of databases that are attached after them.
        yield f"SET pg_pool_max_connections = {DUCKDB_MAX}"
        yield f"SET pg_pool_idle_timeout_millis = {DUCKDB_IDLE_SECONDS * 1000:d}"
        # DuckDB's own way is to open more than the maximum rather than to wait.
        yield "SET pg_pool_acquire_mode = 'wait'"
        yield f"SET pg_pool_wait_timeout_millis = {WAIT_SECONDS * 1000:d}"
        # A scan in parts takes connections beside the maximum.
        yield "SET pg_use_ctid_scan = false"

    def retries(self) -> Iterator[str]:
        """See `Catalog.retries`; not later and later, or the last ones would take hours."""
        yield from (f"SET ducklake_{name} = {value}" for name, value in _RETRIES.items())

    def address(self) -> str:
        """See `Catalog.address`; what a secret cannot say stands here."""
        return f"ducklake:postgres:{self._own_words()}"

    def _own_words(self) -> str:
        options = connection_options(self.url, _CONNECT_SECONDS)
        return _listed({"application_name": "meterlake", **options, **_words(self.url)})

    def database_statement(self, *, read_only: bool) -> str:
        """See `Catalog.database_statement`."""
        options = ["TYPE postgres", "SECRET meterlake_catalog", f"SCHEMA {quote(self._schema)}"]
        options += ["READ_ONLY"] if read_only else []
        return f"ATTACH {quote(self._own_words())} AS metadata ({', '.join(options)})"

    def drop(self) -> None:
        """See `Catalog.drop`; the row of its writer stays, and fences off whoever comes late."""
        statement = f'DROP SCHEMA IF EXISTS "{self._schema}" CASCADE'
        with self._session() as session:
            # Who reads in a transaction that stays open would be waited for without an end.
            session.exec_driver_sql(f"SET lock_timeout = '{_DROP_SECONDS}s'")
            try:
                session.exec_driver_sql(statement)
            finally:
                session.exec_driver_sql("RESET lock_timeout")
        self._exists = False

    def public_address(self) -> str:
        """See `Catalog.public_address`; libpq has its variables and files for user and password."""
        where = {"host": self.url.host, "port": self.url.port, "dbname": self.url.database}
        given = {name: each for name, each in where.items() if each} | _words(self.url)
        return f"ducklake:postgres:{_listed(given)}"

    def options(self, *, public: bool = False) -> Iterator[str]:
        """See `Catalog.options`."""
        yield f"METADATA_SCHEMA {quote(self._schema)}"
        # Without it DuckDB reads of the tables of all lakes of the database when it attaches one.
        yield f"META_SCHEMA {quote(self._schema)}"
        if not public:
            yield "META_SECRET 'meterlake_catalog'"

    @contextmanager
    def lock(self, timeout_s: float) -> Iterator[None]:
        """See `Catalog.lock`."""
        with self._session() as session:
            self._wait(session, timeout_s)
            self._token = secrets.token_hex(16)
            try:
                values = {"token": self._token, "lake": self._schema}
                row = session.exec_driver_sql(_TAKE, values).first()
                self._moved_to = row.moved_to if row else None
                if row is None:
                    session.exec_driver_sql(
                        f"INSERT INTO {_SCHEMA}.writer VALUES (%(lake)s, 1, %(token)s)", values
                    )
                yield
            finally:
                self._token = None
                _free(session, self._key)

    def _wait(self, session: Connection, timeout_s: float) -> None:
        until = None if timeout_s < 0 else time.monotonic() + timeout_s
        pause, longest = _PAUSE_S
        statement = f"SELECT pg_try_advisory_lock({self._key})"
        # Not in the server's own queue: nobody could interrupt a process that waits there.
        while not session.exec_driver_sql(statement).scalar():
            if until is not None and time.monotonic() >= until:
                raise Busy("lake", f"another process writes to {self._schema}; try again later")
            time.sleep(pause)
            pause = min(longest, pause * 1.5)

    def moved_to(self) -> str | None:
        """See `Catalog.moved_to`; whoever takes the lock reads it."""
        return self._moved_to

    def mark_moved(self, target: str | None) -> None:
        """See `Catalog.mark_moved`."""
        with self._session() as session:
            session.exec_driver_sql(_MOVED, {"target": target, "lake": self._schema})
        self._moved_to = target

    def sign(self, connection: duckdb.DuckDBPyConnection) -> None:
        """See `Catalog.sign`."""
        assert self._token is not None, "a transaction without the lock"
        connection.execute(
            "CALL ducklake_set_commit_message('lake', 'meterlake', NULL,"
            f" extra_info => {quote(self._token)})"
        )

    def identity(self, connection: duckdb.DuckDBPyConnection, snapshot: int) -> str:
        """See `Catalog.identity`: the token of its writer and its time."""
        catalog = f"__ducklake_metadata_lake.{self._schema}"
        rows = connection.execute(
            "SELECT concat_ws('_', epoch_us(snapshot_time), left(commit_extra_info, 8))"
            f" FROM {catalog}.ducklake_snapshot JOIN {catalog}.ducklake_snapshot_changes"
            f" USING (snapshot_id) WHERE snapshot_id = {snapshot:d}"
        ).fetchall()
        # Read to its end: else the server would have a transaction open until the next query.
        return str(rows[0][0]) if rows else ""

    def reading(self) -> AbstractContextManager[None]:
        """See `Catalog.reading`; the server shows each reader one state of the catalog."""
        return nullcontext()

    def without_readers(self) -> AbstractContextManager[bool]:
        """See `Catalog.without_readers`; nobody is in the way of readers."""
        return nullcontext(enter_result=True)


def schema_of(lake: str) -> str:
    """The schema of a lake's catalog."""
    return f"lake_{lake.replace('-', '')}"


def read_fences(setting: str) -> dict[str, int]:
    """How often the lock of each lake was taken, by the schema of its catalog.

    Raises:
        Unavailable: Nobody answers.
    """
    url = parse_catalog_url(setting)
    engine = create_engine(
        url, poolclass=NullPool, connect_args=connection_options(url, _CONNECT_SECONDS)
    )
    with translate_errors(name=f"{_NAME}{place(url)}"), engine.connect() as session:
        if session.exec_driver_sql(f"SELECT to_regclass('{_SCHEMA}.writer')").scalar() is None:
            return {}
        rows = session.exec_driver_sql(f"SELECT lake, fence FROM {_SCHEMA}.writer")
        return {row.lake: row.fence for row in rows}


def parse_catalog_url(setting: str) -> URL:
    """Read the URL of the setting.

    Raises:
        Invalid: It is not the URL of a database of PostgreSQL.
    """
    try:
        url = parse_url(setting)
    except Invalid:
        url = None
    if url is None or url.get_backend_name() != "postgresql":
        # The text may hold a password: it is not repeated.
        raise Invalid("catalog", "***", "it must be postgresql://user@host/database")
    return url


def _set_up(session: Connection) -> None:
    """Make what all lakes of the database share.

    Raises:
        Invalid: The server speaks another language than English.
    """
    check_language(str(session.exec_driver_sql("SHOW lc_messages").scalar()))
    session.exec_driver_sql(f"SELECT pg_advisory_lock({_SETUP_LOCK})")
    try:
        for statement in (_TABLE, _FUNCTION):
            session.exec_driver_sql(statement)
    finally:
        _free(session, _SETUP_LOCK)


def check_language(found: str) -> None:
    """Refuse a server whose errors are not in English: DuckLake reads them.

    Raises:
        Invalid: `lc_messages` is of another language.
    """
    if found not in _ENGLISH and not found.startswith("en_"):
        rule = "it must be C, because meterlake reads the errors of the catalog; run ALTER ROLE … SET lc_messages = 'C'"
        raise Invalid("lc_messages of the catalog's server", found, rule)


def _free(session: Connection, key: int) -> None:
    """Free a lock; where that fails, the session ends, and the lock with it."""
    try:
        session.exec_driver_sql(f"SELECT pg_advisory_unlock({key})")
    except (DBAPIError, PendingRollbackError):  # The latter, if it was lost before.
        session.invalidate()


def _words(url: URL) -> dict[str, str]:
    """The options of a URL; of several hosts, all with commas between them, as libpq wants it."""
    query = url.query.items()
    return {name: each if isinstance(each, str) else ",".join(each) for name, each in query}


def _listed(options: Mapping[str, object]) -> str:
    return " ".join(f"{name}={_libpq(str(each))}" for name, each in options.items())


def _libpq(value: str) -> str:
    text = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"
