"""The object store that a URL means, and the one that an organization's export destination means."""

from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from meterlake.model.configuration.exports import DataExportDestinationType, ExportDestination
from meterlake.model.errors import Invalid
from meterlake.settings import Settings, variable
from meterlake.stores.objects.base import ObjectStore, checked_key

_NO_FOLDER: Final = "this server has no folder for exports; set METERLAKE_EXPORT_FOLDER"


def open_destination(
    destination: ExportDestination, external_id: str, settings: Settings
) -> ObjectStore:
    """Open the store of a destination. Nothing is contacted yet.

    Args:
        destination: The bucket, and whose credentials may write to it.
        external_id: What the trust policy of an S3 role expects; no caller chooses it.
        settings: Whether the destination's credentials are used or this machine's own, the folder
            of local destinations, and endpoints.

    Raises:
        Invalid: The prefix is malformed, or local destinations are not allowed here.
    """
    prefix = (destination.prefix or "").strip("/")
    if prefix:
        checked_key(prefix)
    match destination.destination_type:
        case DataExportDestinationType.LOCAL:
            from meterlake.stores.objects.local import LocalObjects  # noqa: PLC0415 - as in `open_objects`

            if settings.export_folder is None:
                raise Invalid("destinationType", DataExportDestinationType.LOCAL.value, _NO_FOLDER)
            folder = settings.export_folder.absolute()
            return LocalObjects(
                folder / checked_key(destination.bucket_name) / prefix, within=folder
            )
        case DataExportDestinationType.GCS:
            return _gcs(destination, prefix, settings)
        case _:
            from meterlake.stores.objects.roles import Role  # noqa: PLC0415
            from meterlake.stores.objects.s3 import S3Objects  # noqa: PLC0415

            role = None
            if settings.export_credentials == "federated":
                endpoint = settings.sts_endpoint or settings.s3_endpoint
                role = Role(destination.iam_role_arn or "", external_id, endpoint)
            return S3Objects(destination.bucket_name, prefix, settings.s3_endpoint, role)


def permit_destination(destination: ExportDestination, settings: Settings) -> None:
    """Refuse a folder that exports may not be written to on this server.

    Whether a bucket takes what is written is seen when it is.

    Raises:
        Invalid: Local destinations are not allowed here, or a link leads out of their folder.
    """
    if destination.destination_type is not DataExportDestinationType.LOCAL:
        return
    if settings.export_folder is None:
        raise Invalid("destinationType", DataExportDestinationType.LOCAL.value, _NO_FOLDER)
    allowed = settings.export_folder.absolute().resolve()
    chosen = allowed / destination.bucket_name / (destination.prefix or "").strip("/")
    if not chosen.resolve().is_relative_to(allowed):
        rule = f"it must be below {allowed}, and a link leads out of there"
        raise Invalid("bucketName", destination.bucket_name, rule)


def missing_for(destination: ExportDestination, settings: Settings) -> str | None:
    """What this process lacks to write to a destination, as far as it is seen from here.

    Nothing is contacted. Whether a bucket takes what is written is seen when it is.
    """
    kind = destination.destination_type
    if kind is DataExportDestinationType.LOCAL:
        if settings.export_folder is None:
            return f"{variable('export_folder')} is not set"
        # A file system that is mounted later is there sooner or later, and its exports with it.
        folder = settings.export_folder.absolute()
        there = folder.is_dir()
        return None if there else f"{variable('export_folder')} {folder} is not there"
    if kind is DataExportDestinationType.GCS:
        if settings.export_credentials == "own":
            return None  # Google's library takes seconds to find out.
        token = settings.federation_token_file
        if token is not None:
            return None if token.is_file() else f"{variable('federation_token_file')} is not there"
    from meterlake.stores.objects.roles import has_credentials  # noqa: PLC0415

    return None if has_credentials() else "this machine has no AWS credentials"


def _gcs(destination: ExportDestination, prefix: str, settings: Settings) -> ObjectStore:
    from meterlake.stores.objects.federation import IdentityPool  # noqa: PLC0415
    from meterlake.stores.objects.gcs import GcsObjects  # noqa: PLC0415

    pool = None
    if settings.export_credentials == "federated":
        pool = IdentityPool(
            project_number=destination.project_number or "",
            pool_id=destination.pool_id or "",
            provider_id=destination.provider_id or "",
            service_account=destination.service_account_email or None,
            token_file=settings.federation_token_file,
            endpoint=settings.gcs_sts_endpoint,
        )
    return GcsObjects(destination.bucket_name, prefix, settings.gcs_endpoint, pool)


def open_objects(url_or_path: str | Path, settings: Settings) -> ObjectStore:
    """Open the store that a path, or a `file://`, `s3://` or `gs://` URL names.

    Nothing is contacted yet; a missing bucket shows at the first use. Credentials come from where
    boto3 and google-cloud-storage look for them.

    Args:
        url_or_path: `exports`, `/srv/exports`, `s3://bucket/prefix`, `gs://bucket/prefix`.
        settings: The endpoints of stores that are not Amazon's or Google's.

    Raises:
        Invalid: The URL has another scheme, no bucket or a malformed prefix.
    """
    # boto3 and google-cloud-storage take half a second each to import: only who needs them pays.
    text = str(url_or_path)
    if isinstance(url_or_path, Path) or "://" not in text:
        from meterlake.stores.objects.local import LocalObjects  # noqa: PLC0415

        return LocalObjects(Path(text))
    scheme, bucket, path = split_url(text)
    if scheme == "file":
        from meterlake.stores.objects.local import LocalObjects  # noqa: PLC0415

        return LocalObjects(Path(unquote(path)))
    prefix = path.strip("/")
    if prefix:
        checked_key(prefix)
    if scheme == "s3":
        from meterlake.stores.objects.s3 import S3Objects  # noqa: PLC0415

        return S3Objects(bucket, prefix, settings.s3_endpoint)
    from meterlake.stores.objects.gcs import GcsObjects  # noqa: PLC0415

    return GcsObjects(bucket, prefix, settings.gcs_endpoint)


def split_url(url: str, field: str = "object store") -> tuple[str, str, str]:
    """The scheme, the bucket and the path of a URL.

    Args:
        url: Such as `s3://bucket/prefix`.
        field: Where it was written.

    Raises:
        Invalid: It has another scheme, or no bucket.
    """
    scheme, rest = url.split("://", 1)
    if scheme == "file":
        return scheme, "", urlsplit(url).path
    # Not urlsplit: keys may hold `?` and `#`.
    bucket, _, prefix = rest.partition("/")
    if scheme not in {"s3", "gs"}:
        raise Invalid(field, url, "it must be a folder, or a file://, s3:// or gs:// URL")
    if not bucket:
        raise Invalid(field, url, f"it must name a bucket, such as {scheme}://bucket/prefix")
    return scheme, bucket, prefix
