"""Credentials of a role of AWS, which whoever owns a bucket lets us assume."""

import functools
import os
import time
from dataclasses import dataclass
from typing import Any, Final

import boto3
import botocore.session
from botocore.config import Config
from botocore.credentials import (
    AssumeRoleCredentialFetcher,
    CredentialProvider,
    CredentialResolver,
    DeferredRefreshableCredentials,
)
from botocore.exceptions import BotoCoreError, NoCredentialsError

from meterlake.stores.objects.base import ATTEMPTS, CONNECT_TIMEOUT_S, READ_TIMEOUT_S

# The operation whose errors are about the role and not about the bucket.
ASSUMING: Final = "AssumeRole"
_METHOD: Final = "assume-role"
_SESSION: Final = "meterlake-export"
_REGION: Final = "us-east-1"
# What botocore calls that which reads the descriptions of services.
_DESCRIPTIONS: Final = "data_loader"
# For so long what was found about credentials is believed.
_BELIEVED_S: Final = 30


@dataclass(frozen=True, slots=True)
class Role:
    """A role, and what shows that we assume it for somebody who may use it.

    Attributes:
        arn: Its name.
        external_id: What its trust policy expects. The caller must not be able to choose it: else
            one customer's destination could name another customer's role.
        endpoint: The service that gives its credentials; that of AWS if None.
    """

    arn: str
    external_id: str
    endpoint: str | None = None


def session(role: Role | None) -> boto3.Session:
    """What boto3 makes of this machine's own credentials, or of those of a role.

    The role is assumed at the first request, and again before its credentials end.

    Raises:
        NoCredentialsError: This machine has none to assume the role with.
    """
    own = boto3.Session(botocore_session=_core())
    if role is None:
        return own
    source = own.get_credentials()
    if source is None:
        raise NoCredentialsError
    core = _core()
    region = own.region_name or _REGION
    fetcher = AssumeRoleCredentialFetcher(
        functools.partial(
            core.create_client,
            endpoint_url=role.endpoint,
            region_name=region,
            config=Config(
                connect_timeout=CONNECT_TIMEOUT_S,
                read_timeout=READ_TIMEOUT_S,
                retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            ),
        ),
        source,
        role.arn,
        extra_args={"RoleSessionName": _SESSION, "ExternalId": role.external_id},
    )
    core.register_component("credential_provider", CredentialResolver([_Assumed(fetcher)]))
    return boto3.Session(botocore_session=core, region_name=own.region_name)


def has_credentials() -> bool:
    """Whether this machine has AWS credentials; what was found is believed for a while."""
    environment = tuple(sorted(each for each in os.environ.items() if each[0].startswith("AWS_")))
    return _finds_credentials(environment, int(time.monotonic() // _BELIEVED_S))


@functools.lru_cache(maxsize=1)
def _finds_credentials(_said: tuple[tuple[str, str], ...], _time: int) -> bool:
    # Asking takes a tenth of a second, and may ask a server of the cloud.
    try:
        return boto3.Session(botocore_session=_core()).get_credentials() is not None
    except BotoCoreError:
        return False


def _core() -> botocore.session.Session:
    """A new session that shares what describes the services with all others of this process.

    Each would read it from files again, which takes 0.06 s; it never changes.
    """
    core = botocore.session.get_session()
    core.register_component(_DESCRIPTIONS, _loader())
    return core


@functools.cache
def _loader() -> Any:
    return botocore.session.get_session().get_component(_DESCRIPTIONS)


class _Assumed(CredentialProvider):
    """The only place where the session looks: nothing else may stand in for the role."""

    METHOD = _METHOD

    def __init__(self, fetcher: AssumeRoleCredentialFetcher) -> None:
        super().__init__()
        self._fetcher = fetcher

    def load(self) -> Any:
        """Credentials that come when they are needed."""
        return DeferredRefreshableCredentials(
            refresh_using=self._fetcher.fetch_credentials, method=_METHOD
        )
