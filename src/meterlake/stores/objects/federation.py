"""Google credentials from what this machine is elsewhere: workload identity federation.

A pool of the bucket's owner trusts tokens of this machine. Google's token service exchanges one
for a token of the pool, and that one, perhaps, for a token of a service account.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import boto3
from google.auth import aws, exceptions, identity_pool
from google.auth.credentials import Credentials

_AWS: Final = "urn:ietf:params:aws:token-type:aws4_request"
_OIDC: Final = "urn:ietf:params:oauth:token-type:jwt"
_SCOPES: Final = ("https://www.googleapis.com/auth/devstorage.read_write",)
_TOKENS: Final = "https://sts.googleapis.com"
_ACCOUNTS: Final = "https://iamcredentials.googleapis.com"
_REGION: Final = "us-east-1"
_NOBODY: Final = "this machine has neither AWS credentials nor METERLAKE_FEDERATION_TOKEN_FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityPool:
    """A workload identity pool, and how it knows this machine.

    Attributes:
        project_number: The project of the pool; never its name.
        pool_id: The pool.
        provider_id: The provider of the pool that trusts us.
        service_account: The account that the pool may act as; it acts for itself if None.
        token_file: Where an OIDC token of this machine lies; its AWS credentials if None.
        endpoint: A service that stands in for Google's.
    """

    project_number: str
    pool_id: str
    provider_id: str
    service_account: str | None = None
    token_file: Path | None = None
    endpoint: str | None = None

    @property
    def audience(self) -> str:
        """The provider's whole name."""
        project, pool, provider = (
            quote(part, safe="") for part in (self.project_number, self.pool_id, self.provider_id)
        )
        return (
            f"//iam.googleapis.com/projects/{project}/locations/global/"
            f"workloadIdentityPools/{pool}/providers/{provider}"
        )


def credentials(pool: IdentityPool) -> Credentials:
    """Credentials that are exchanged at the first request, and again before they end.

    Raises:
        GoogleAuthError: A name of the pool is none.
    """
    common: dict[str, Any] = {
        "audience": pool.audience,
        "token_url": f"{pool.endpoint or _TOKENS}/v1/token",
        "scopes": _SCOPES,
    }
    if pool.service_account is not None:
        account = quote(pool.service_account, safe="@")
        common["service_account_impersonation_url"] = (
            f"{pool.endpoint or _ACCOUNTS}/v1/projects/-/serviceAccounts/{account}"
            ":generateAccessToken"
        )
    make: Callable[..., Credentials]
    if pool.token_file is None:
        make, kind = aws.Credentials, _AWS
        source: dict[str, Any] = {"aws_security_credentials_supplier": _OfThisMachine()}
    else:
        make, kind = identity_pool.Credentials, _OIDC
        source = {"credential_source": {"file": str(pool.token_file)}}
    return make(subject_token_type=kind, **source, **common)


class _OfThisMachine(aws.AwsSecurityCredentialsSupplier):
    """The AWS credentials of this machine, from where boto3 looks for them."""

    def get_aws_security_credentials(
        self, context: object, request: object
    ) -> aws.AwsSecurityCredentials:
        """The credentials that sign the token."""
        del context, request
        found = boto3.Session().get_credentials()
        if found is None:
            error: Callable[[str], Exception] = exceptions.RefreshError  # It has no annotations.
            raise error(_NOBODY)
        frozen: Any = found.get_frozen_credentials()
        return aws.AwsSecurityCredentials(frozen.access_key, frozen.secret_key, frozen.token)

    def get_aws_region(self, context: object, request: object) -> str:
        """The region whose service says who we are."""
        del context, request
        return boto3.Session().region_name or _REGION
