"""Whether a server or a worker that runs somewhere is ready, as its /readyz says."""

from contextlib import closing
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, build_opener

from meterlake.model.errors import Invalid, Unavailable
from meterlake.model.values import wire


def check_ready(url: str, timeout: float) -> None:
    """Ask a process whether it is ready.

    Args:
        url: Where it answers, without a path.
        timeout: Seconds after which no answer is a bad answer.

    Raises:
        Invalid: The URL is none.
        Unavailable: It is not ready, or does not answer.
    """
    if not url.startswith(("http://", "https://")):
        raise Invalid("url", url, "it must be an http:// or https:// URL without a path")
    try:
        # Without proxies, whatever the environment says: usually it is on this machine.
        with build_opener(ProxyHandler({})).open(f"{url.rstrip('/')}/readyz", timeout=timeout):
            return
    except HTTPError as error:
        with closing(error):
            raise Unavailable(url, _reason(error)) from None
    except (URLError, OSError, HTTPException) as error:
        raise Unavailable(url, str(getattr(error, "reason", error))) from None


def _reason(answer: HTTPError) -> str:
    try:
        return str(wire.loads(answer.read())["message"])
    except (ValueError, KeyError, TypeError):
        return f"it answers with {answer.status}"
