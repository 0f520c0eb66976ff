"""Bodies of requests, rendered from templates within limits of time and size."""

import sys
import time
from collections.abc import Mapping
from types import FrameType
from typing import Any, Final

from jinja2 import TemplateError

from meterlake.model.errors import Invalid
from meterlake.model.values import wire
from meterlake.model.values.json_templates import environment, limit_text

BODY_MAX: Final = 4 << 20
SECONDS_MAX: Final = 2.0
_FIELD: Final = "configData.template"


class _TooLongError(Exception):
    """The time is over."""


def render_json(template: str, values: Mapping[str, Any]) -> bytes:
    """The body that a template makes of values.

    Raises:
        Invalid: It cannot be rendered, takes too long, is too large, or is no JSON.
    """
    try:
        text = _render(template, values)
        _check_json(text)
    except _TooLongError:
        raise Invalid(_FIELD, "…", f"it must be rendered within {SECONDS_MAX:g} seconds") from None
    except TemplateError as error:
        raise Invalid(_FIELD, "…", f"it must be a template that can be rendered: {error}") from None
    except Invalid:
        raise
    except Exception as error:  # noqa: BLE001 - what a template does is its own, and the next try would do the same
        raise Invalid(_FIELD, "…", f"it must be a template of JSON: {error}") from None
    return text.encode()


def _check_json(text: str) -> None:
    try:
        wire.loads(text)
    except Invalid as error:
        raise Invalid(_FIELD, "…", f"it must be a template of JSON: {error.args[2]}") from None


def _render(template: str, values: Mapping[str, Any]) -> str:
    end, parts, size = time.monotonic() + SECONDS_MAX, [], 0

    def watch(frame: FrameType, event: str, arg: Any) -> Any:
        del frame, event, arg
        if time.monotonic() > end:
            raise _TooLongError
        return watch

    limit_text()
    compiled = environment().from_string(template)
    before = sys.gettrace()
    # A loop that writes nothing would never come back: every line of it is watched.
    sys.settrace(watch)
    try:
        for part in compiled.generate(values):
            parts.append(part)
            size += len(part)
            if size > BODY_MAX:
                raise Invalid(_FIELD, "…", f"it must have at most {BODY_MAX:,} characters of body")
    finally:
        sys.settrace(before)
    return "".join(parts)
