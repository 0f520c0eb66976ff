"""Everything that differs between machines, from METERLAKE_* variables or a .env file."""

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict


class SettingScope(StrEnum):
    """Whose a setting is; the values stand in the documents."""

    # Where a home's things are. The first process that is told writes it into the home.
    HOME = "home"
    # The same for all, but written into the home only by processes that stay: the server, the
    # worker. A variable that is set for one command changes nothing for the others.
    SERVICE = "service"
    # How a store is reached. Written into the home, but another network may know another way.
    ROUTE = "route"
    # This process's own: its memory, its pace, what it limits.
    PROCESS = "process"


def _empty_is_absent(value: Any) -> Any:
    """An empty variable is none: Compose files and service managers set those that nobody set."""
    return None if value == "" else value


def _listed(value: Any) -> Any:
    """A list that is written as JSON, or with commas between its members."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return json.loads(value)
    return tuple(each.strip() for each in value.split(",") if each.strip())


# Of services, below a path of theirs or not; an empty one is none.
_ENDPOINT: Final = r"^(https?://[^?#\s]+)?$"
_Optional = Annotated[str | None, BeforeValidator(_empty_is_absent)]


class Settings(BaseSettings):
    """Settings of one meterlake home. Only entry points (cli, api, flows) create them."""

    model_config = SettingsConfigDict(
        env_prefix="METERLAKE_", env_file=".env", extra="ignore", frozen=True
    )

    home: Path = Field(Path("meterlake-home"), description="The folder that holds everything.")
    state: _Optional = Field(
        None,
        description="State database: a postgresql:// URL; if you leave it out, SQLite in the home folder.",
    )
    lake: _Optional = Field(
        None,
        description=(
            "The place of the files of lakes: a folder, an s3:// or a gs:// URL; if you leave it "
            "out, lakes in the home folder."
        ),
    )
    catalog: _Optional = Field(
        None,
        description=(
            "The place of the catalogs of lakes: a postgresql:// URL, a schema for each lake; if "
            "you leave it out, SQLite in each lake's folder."
        ),
    )
    duckdb_memory: str = Field(
        "700MB", pattern=r"^\d+(MB|GB)$", description="Memory that one DuckDB connection may use."
    )
    threads: int = Field(2, ge=1, le=256, description="Threads that decode files and run queries.")
    lakes_open: int = Field(
        16,
        ge=1,
        le=1024,
        description="Lakes that each kind of work of a process keeps open; each takes memory,"
        " and opening one takes time.",
    )
    runner: _Optional = Field(
        None,
        description=(
            "The runner of fan-outs: threads, processes, dask, or dask://host:port; if you leave "
            "it out, each works without a runner."
        ),
    )
    runner_workers: int = Field(
        2,
        ge=1,
        le=256,
        description="Fan-outs: tasks at the same time, each of which takes memory; a Dask scheduler"
        " of your own decides itself.",
    )
    organizations_at_once: int = Field(
        3,
        ge=1,
        le=64,
        description=(
            "Worker: organizations for which it works on dropped files, segments, uploads, "
            "inboxes or exports at the same time, of each kind; each takes memory."
        ),
    )
    block_bytes: int = Field(
        8 << 20,
        ge=1 << 10,
        le=1 << 28,
        description="Bytes of a file that meterlake decodes at once.",
    )
    line_bytes: int = Field(
        1 << 20,
        ge=1 << 10,
        le=1 << 24,
        description="Longest line or record that meterlake accepts.",
    )
    source_bytes: int = Field(
        64 << 30, ge=1 << 10, description="The most that one file may hold, decompressed."
    )
    source_ratio: int = Field(
        500,
        ge=1,
        description="How many bytes a byte of a packed file may become, beyond 64 MiB.",
    )
    source_rows_per_byte: int = Field(
        2, ge=1, description="How many rows a byte of a file may stand for, beyond 100,000."
    )
    settle_seconds: int = Field(
        2,
        ge=0,
        le=3600,
        description="Seconds that a dropped file has to rest before the worker takes it.",
    )
    segment_bytes: int = Field(
        16 << 20, ge=1, le=1 << 30, description="Submitted measurements: bytes of one segment."
    )
    segment_seconds: float = Field(
        1,
        ge=0,
        le=3600,
        description=(
            "Submitted measurements: seconds after which the server closes a segment, and the "
            "worker ingests it."
        ),
    )
    segment_backlog: int = Field(
        1 << 30,
        ge=0,
        description="Submitted measurements: more bytes than this do not wait; callers get 429.",
    )
    segment_copies: Literal["none", "objects"] = Field(
        "none",
        description="Submitted measurements: `objects` copies each batch to METERLAKE_OBJECTS before"
        " the answer, so that it outlives the machine.",
    )
    segment_lost_seconds: float = Field(
        60,
        ge=1,
        le=86_400,
        description=(
            "Submitted measurements: if copies do not change for so many seconds, another "
            "machine's worker takes them over."
        ),
    )
    group_read: bool = Field(
        False,
        description="Whether the group of the home's files may read lakes and published files"
        " (0640 and 0750); otherwise only their owner may (0600 and 0700).",
    )
    objects: _Optional = Field(
        None,
        description=(
            "The place of uploaded files and of files for download: a folder, an s3:// or a gs:// "
            "URL; if you leave it out, objects in the home folder."
        ),
    )
    download_seconds: int = Field(
        300,
        ge=1,
        le=86_400,
        description="Seconds for which the link to a file of failed rows works.",
    )
    document_templates: Path | None = Field(
        None,
        description=(
            "Documents of bills: the folder of the templates `bill.html` and `bill.typ`, or of "
            "folders with them whose names are codes of organizations; if you leave it out, "
            "meterlake's own."
        ),
    )
    document_fonts: Path | None = Field(
        None, description="Documents of bills: a folder with fonts beside those of packages."
    )
    document_seconds: int = Field(
        60,
        ge=1,
        le=3600,
        description="Documents of bills: seconds of a processor that one may take.",
    )
    failed_rows: int = Field(
        1_000_000, ge=1, description="The most rejected rows that one such file lists."
    )
    upload_seconds: int = Field(
        60,
        ge=1,
        le=86_400,
        description="Uploads: seconds for which a URL works; begin the PUT by then.",
    )
    upload_arrival_seconds: int = Field(
        3600,
        ge=0,
        description="Uploads to S3 or GCS: a PUT that began in time ends at most this much later.",
    )
    upload_bytes: int = Field(
        1 << 30, ge=1, le=1 << 30, description="Uploads: the most that one file may hold."
    )
    upload_waiting_bytes: int = Field(
        32 << 30,
        ge=1,
        description=(
            "Uploads: bytes of an organization's files that are announced or wait for their "
            "ingest; callers who announce more get 429."
        ),
    )
    inbox_seconds: float = Field(
        30, ge=1, le=86_400, description="Bucket inboxes: seconds between two looks of the worker."
    )
    export_attempts: int = Field(
        6,
        ge=1,
        le=100,
        description="Exports: tries of a read of the lake, or of a put, while the world fails.",
    )
    export_retry_seconds: float = Field(
        1, gt=0, le=3600, description="Exports: the first pause between two tries; then it doubles."
    )
    export_file_bytes: int = Field(
        1 << 30,
        ge=1 << 10,
        description="Exports: bytes of a file, before gzip, after which another one begins.",
    )
    export_memory: str = Field(
        "500MB",
        pattern=r"^\d+(MB|GB)$",
        description="Exports: memory in which DuckDB sorts measurements before it spills to disk.",
    )
    export_folder: Path | None = Field(
        None,
        description="Exports: the folder of LOCAL destinations; if you leave it out, you have none.",
    )
    inbox_folders: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_listed)] = Field(
        (),
        description=(
            "Inboxes: folders below which the API and the console may name inboxes, beside the "
            "organization's own drop folder; a list of paths. People of all organizations may name "
            "them, and the server reads there."
        ),
    )
    export_credentials: Literal["federated", "own"] = Field(
        "federated",
        description=(
            "Exports: with `federated` the server assumes the role of an S3 destination, and lets "
            "the pool of a GCS destination exchange this machine's token; with `own` it uses the "
            "rights of this machine itself."
        ),
    )
    federation_token_file: Path | None = Field(
        None,
        description=(
            "File of the OIDC token by which workload identity pools of Google know this machine; "
            "if you leave it out, its AWS credentials."
        ),
    )
    sts_endpoint: str | None = Field(
        None,
        pattern=_ENDPOINT,
        description=(
            "URL of the service that gives the credentials of roles; if you leave it out, "
            "METERLAKE_S3_ENDPOINT, and without that AWS."
        ),
    )
    gcs_sts_endpoint: str | None = Field(
        None,
        pattern=_ENDPOINT,
        description=(
            "URL of a service that exchanges tokens as Google's does; if you leave it out, Google."
        ),
    )
    export_missed: Literal["catch_up", "skip"] = Field(
        "catch_up",
        description=(
            "Exports: runs of schedules that fell due while no worker ran or while you had "
            "exports switched off: `catch_up` makes up for all, `skip` only for the newest."
        ),
    )
    snapshot_days: int = Field(
        30,
        ge=1,
        le=36_500,
        description="Lakes: days for which a snapshot stays that no bill and no job pins.",
    )
    event_days: int = Field(
        28,
        ge=1,
        le=36_500,
        description="Days for which you can list events; `maintain` removes older ones.",
    )
    prefect_url: str | None = Field(
        None,
        pattern=_ENDPOINT,
        description=(
            "API of the Prefect server on which the worker's jobs are flow runs; if you leave it "
            "out, `serve` starts one."
        ),
    )
    alert_freshness_hours: float = Field(
        24,
        ge=0,
        description="A meter that received nothing for so many hours raises an alert; 0: none does.",
    )
    alert_reject_rate: float = Field(
        0.05, ge=0, le=1, description="More rejected measurements than this part raise an alert."
    )
    alert_reject_hours: float = Field(
        24, gt=0, description="Hours up to now of which meterlake takes the rejected part."
    )
    alert_reject_least: int = Field(
        100, ge=1, description="Fewer measurements within these hours raise no such alert."
    )
    s3_endpoint: str | None = Field(
        None,
        pattern=_ENDPOINT,
        description="URL of an S3-compatible store; if you leave it out, AWS.",
    )
    gcs_endpoint: str | None = Field(
        None,
        pattern=_ENDPOINT,
        description="URL of a GCS-compatible store; if you leave it out, Google.",
    )
    secret_key: SecretStr | None = Field(
        None,
        description=(
            "Key of stored secrets: 32 random bytes in URL-safe Base64; if you leave it out, the "
            "file secret.key in the home folder."
        ),
    )
    public_url: str | None = Field(
        None,
        pattern=r"^https?://[^/?#\s]+$",
        description="The URL at which people reach the server: links in letters start with it.",
    )
    redirect_urls: tuple[str, ...] = Field(
        (),
        description="URLs to which a sign-in may lead besides /console/callback of the same server.",
    )
    costly_at_once: int = Field(
        3,
        ge=1,
        le=64,
        description="API: documents, explanations, queries and other costly requests that a process"
        " answers at the same time. One organization has at most all but one of them.",
    )
    costly_waiting: int = Field(
        12,
        ge=0,
        le=10_000,
        description="API: costly requests of one organization that wait in a process; more get 429.",
    )
    request_seconds: float = Field(
        60,
        gt=0,
        le=3600,
        description="API: seconds within which the head of a request has to come, and then its"
        " body; uploads may take longer.",
    )
    limit_config: bool = Field(
        False, description="Whether the server limits requests to the Config API."
    )
    config_per_second: int = Field(
        50, ge=1, description="Config API: requests of an organization per second."
    )
    config_per_address: int = Field(
        20_000, ge=1, description="Config API: requests from one address in 5 minutes."
    )
    limit_ingest: bool = Field(
        False, description="Whether the server limits requests to the Ingest API."
    )
    ingest_per_second: int = Field(
        50, ge=1, description="Ingest API: requests of an organization per second."
    )
    ingest_per_address: int = Field(
        5_000, ge=1, description="Ingest API: requests from one address in 5 minutes."
    )
    limit_explorer: bool = Field(
        True, description="Whether the server limits queries of the Data Explorer."
    )
    explorer_per_second: int = Field(
        1, ge=1, description="Data Explorer: queries of an organization per second."
    )
    explorer_burst: int = Field(10, ge=1, description="Data Explorer: queries at once.")
    explorer_v2_per_second: int = Field(
        2, ge=1, description="Data Explorer v2: queries of an organization per second."
    )
    explorer_v2_burst: int = Field(20, ge=1, description="Data Explorer v2: queries at once.")
    explorer_seconds: float = Field(
        60, gt=0, le=3600, description="Data Explorer: seconds after which the server ends a query."
    )
    custom_sql_memory: str = Field(
        "256MB",
        pattern=r"^\d+(MB|GB)$",
        description="Memory that the SQL of an aggregation may use for one account.",
    )
    custom_sql_seconds: float = Field(
        10,
        gt=0,
        le=3600,
        description="Seconds after which meterlake ends the SQL of an aggregation for one account.",
    )
    custom_sql_run_seconds: float = Field(
        3600,
        gt=0,
        description="Seconds that the SQL of an aggregation may take for all accounts of a run.",
    )
    approve_held_bills: bool = Field(
        False,
        description=(
            "Bills: whether a bill approves itself even if its account has usage without a price, "
            "or failed the last time, or the bill is out of date."
        ),
    )
    marketplace_endpoint: str | None = Field(
        None,
        pattern=_ENDPOINT,
        description="URL of a service that meters as the AWS Marketplace does; if you leave it out, AWS.",
    )
    stripe_url: str | None = Field(
        None,
        pattern=r"^https?://[^/?#\s]+$",
        description="URL of a service that answers as Stripe does; if you leave it out, Stripe.",
    )
    smtp_url: SecretStr | None = Field(
        None,
        description=(
            "Mail server for letters: smtp://, smtp+starttls:// or smtps://, with user:password@ "
            "if you need it; if you leave it out, letters stay in the folder outbox."
        ),
    )
    smtp_from: str | None = Field(
        None,
        pattern=r"^[^\s<>]+@[^\s<>]+$",
        description="The sender of letters; you need it with smtp_url.",
    )
    webhook_loopback: bool = Field(
        False, description="Whether webhooks may lead to this machine, also by plain http."
    )
    webhook_private: bool = Field(
        False, description="Whether webhooks may lead to private networks."
    )
    webhook_allow: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_listed)] = Field(
        (),
        description="Hosts, addresses and networks that webhooks may lead to in any case, also by"
        " plain http: names and networks such as 10.1.0.0/16, with commas between them.",
    )
    webhook_must_resolve: bool = Field(
        True, description="Whether the host of a webhook must have an address when you save it."
    )
    without: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_listed)] = Field(
        (),
        description=(
            "Work that `serve` and the worker leave out: names such as publish, with commas "
            "between them; you see the names when you start `serve`."
        ),
    )
    webhook_secret_hours: float = Field(
        24,
        ge=0,
        le=8760,
        description="Webhooks: hours for which a replaced secret signs beside the new one.",
    )


_SHARED: Final = {
    SettingScope.HOME: (
        *(
            "state",
            "lake",
            "catalog",
            "objects",
            "export_folder",
            "export_credentials",
            "secret_key",
            "group_read",
        ),
    ),
    SettingScope.SERVICE: (
        "line_bytes",
        "source_bytes",
        "source_ratio",
        "source_rows_per_byte",
        "settle_seconds",
        "segment_copies",
        "segment_lost_seconds",
        "upload_arrival_seconds",
        "export_missed",
        "document_templates",
        "document_fonts",
        "snapshot_days",
        "event_days",
        "alert_freshness_hours",
        "alert_reject_rate",
        "alert_reject_hours",
        "alert_reject_least",
        "public_url",
        "redirect_urls",
        "webhook_loopback",
        "webhook_private",
        "webhook_allow",
        "webhook_secret_hours",
        "approve_held_bills",
    ),
    SettingScope.ROUTE: (
        "s3_endpoint",
        "gcs_endpoint",
        "sts_endpoint",
        "gcs_sts_endpoint",
        "stripe_url",
        "marketplace_endpoint",
    ),
}
SCOPES: Final[Mapping[str, SettingScope]] = MappingProxyType(
    dict.fromkeys(Settings.model_fields, SettingScope.PROCESS)
    | {name: scope for scope, names in _SHARED.items() for name in names}
)


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return f"METERLAKE_{name.upper()}"


def as_environment(settings: Settings) -> dict[str, str]:
    """What a process was told, as variables for its children: they may run in another folder."""
    return {variable(name): _text(getattr(settings, name)) for name in settings.model_fields_set}


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case SecretStr():
            return value.get_secret_value()
        case Path():
            return str(value.absolute())
        case tuple():
            return json.dumps(value)
        case _:
            return str(value)
