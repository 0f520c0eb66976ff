"""Which object store a path or URL means."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from meterlake.model.errors import Invalid
from meterlake.settings import Settings
from meterlake.stores.objects.base import ObjectStore, checked_key


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
