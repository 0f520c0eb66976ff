"""What regular expressions of fields ask for, in words that people read."""

from types import MappingProxyType
from typing import Any, Final

from meterlake.model.values.ids import CODE_PATTERN

PATTERN_RULES: Final = MappingProxyType(
    {
        CODE_PATTERN: "text without control characters, without white space at its ends, and with no other white space than spaces",
        r"^[\p{L}_$][\p{L}_$0-9]*$": "made of letters, digits, _ and $, not beginning with a digit",
        r"^[a-zA-Z0-9_-]*$": "made of letters A to Z, digits, dashes and underscores",
        r"^[A-Za-z0-9-]{1,100}$": "made of 1 to 100 letters A to Z, digits and dashes",
        r"^[a-z0-9-]{1,40}$": "made of 1 to 40 lower-case letters a to z, digits and dashes",
        r"^[a-z][a-z0-9]*$": "made of lower-case letters a to z and digits, beginning with a letter",
        r"^[!-~](?:[ -~]*[!-~])?$": "made of printable ASCII characters, with no space at the ends",
        r"^arn:aws:iam::\d+:role/.*$": "the ARN of a role such as arn:aws:iam::123456789012:role/name",
        r"^[\x01-\x09!#-/:-@\[-^`{-~]$": (
            "one ASCII character that is no letter, digit, space, double quote, underscore or line break"
        ),
        r"\S": "text that is not blank",
        r"^[0-9a-f]{64}$": "a SHA-256 of 64 hexadecimal digits in lower case",
        r"^\d+(MB|GB)$": "a size such as 700MB or 2GB",
        r"^(https?://[^?#\s]+)?$": "an http:// or https:// URL without a query, or empty",
        r"^https?://[^/?#\s]+$": "an http:// or https:// URL without a path",
        r"^https?://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?$": "the origin of a page, such as https://portal.example.com",
        r"^[^\s<>]+@[^\s<>]+$": "an e-mail address",
    }
)


def describe_mismatch(detail: Any) -> str:
    """The rule that an error of pydantic is about; of a pattern in words, if it has any yet."""
    if detail["type"] != "string_pattern_mismatch":
        return str(detail["msg"]).replace("Input should be", "it must be")
    pattern = detail["ctx"]["pattern"]
    return f"it must be {PATTERN_RULES.get(pattern, f'text that matches {pattern}')}"
