"""What clouds say about who may act for whom: rules of a `relay` before a real store."""

import json
from dataclasses import dataclass, field
from urllib.parse import unquote

from tests.doubles.http_faults import Answer, Asked, s3_error

ROLE = "arn:aws:iam::123456789012:role/exports"
ACCOUNT = "writer@project.iam.gserviceaccount.com"
AUDIENCE = (
    "//iam.googleapis.com/projects/4711/locations/global/workloadIdentityPools/ours/providers/them"
)


@dataclass
class TrustPolicy:
    """A role of AWS that may be assumed with one external id only; what it writes has to be its own.

    Attributes:
        external_id: What is expected.
        assumed: The requests that asked for the role.
        ended: Keys of credentials that have ended.
    """

    external_id: str
    assumed: list[dict[str, str]] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    keys: list[str] = field(default_factory=list)

    def __call__(self, asked: Asked) -> Answer | None:
        if asked.method == "POST" and b"Action=AssumeRole" in asked.body:
            self.assumed.append(asked.form)
            if (asked.form["RoleArn"], asked.form.get("ExternalId")) == (ROLE, self.external_id):
                return None
            text = "<Code>AccessDenied</Code><Message>not authorized: sts:AssumeRole</Message>"
            body = f"<ErrorResponse><Error><Type>Sender</Type>{text}</Error></ErrorResponse>"
            return Answer(403, body.encode(), {"Content-Type": "text/xml"})
        key = asked.headers["Authorization"].split("Credential=")[1].split("/")[0]
        self.keys.append(key)
        return s3_error(400, "ExpiredToken") if key in self.ended else None


@dataclass
class Google:
    """Google's token service, and a bucket that lets only one service account in.

    Attributes:
        exchanged: What was exchanged for tokens of the pool.
        revoked: Tokens of the account that are worth nothing any more.
    """

    exchanged: list[dict[str, str]] = field(default_factory=list)
    revoked: set[str] = field(default_factory=set)
    given: int = 0

    def __call__(self, asked: Asked) -> Answer | None:
        bearer = asked.headers.get("Authorization", "").removeprefix("Bearer ")
        if asked.path == "/v1/token":
            return self._exchange(asked)
        if asked.path.endswith(":generateAccessToken"):
            named = f"/v1/projects/-/serviceAccounts/{ACCOUNT}:generateAccessToken"
            if bearer != "pool" or unquote(asked.path) != named:
                return _json(403, error={"code": 403, "message": "may not act as that account"})
            self.given += 1
            return _json(
                200, accessToken=f"account-{self.given}", expireTime="2999-01-01T00:00:00Z"
            )
        if not bearer.startswith("account-") or bearer in self.revoked:
            return _json(401, error={"code": 401, "message": "Invalid Credentials"})
        return None

    def _exchange(self, asked: Asked) -> Answer:
        self.exchanged.append(asked.form)
        if asked.form["audience"] != AUDIENCE:
            return _json(400, error="invalid_target", error_description="no such provider")
        kind = "urn:ietf:params:oauth:token-type:access_token"
        return _json(
            200, access_token="pool", issued_token_type=kind, token_type="Bearer", expires_in=3600
        )


def _json(status: int, **members: object) -> Answer:
    return Answer(status, json.dumps(members).encode(), {"Content-Type": "application/json"})
