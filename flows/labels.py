"""What a run is called, and whose it is: its name and its tags on Prefect's pages."""

from collections.abc import Sequence
from typing import Final

import httpx
from prefect import get_client, get_run_logger, runtime
from prefect.exceptions import PrefectException

_NAMED_MAX: Final = 3
# A run's tags are kept with every run.
TAGS_MAX: Final = 100


def tag_of(code: str) -> str:
    """The tag of all that is done for an organization.

    >>> tag_of("halvorsen-cloud")
    'org:halvorsen-cloud'
    """
    return f"org:{code}"


def whom(codes: Sequence[str]) -> str:
    """Organizations in the name of a run.

    >>> whom(["acme", "bolt"]), whom(["a", "b", "c", "d", "e"])
    ('acme, bolt', 'a, b, c and 2 more')
    """
    more = len(codes) - _NAMED_MAX
    named = ", ".join(codes[:_NAMED_MAX]) or "no organization"
    return f"{named} and {more:,} more" if more > 0 else named


def label_run(what: str, codes: Sequence[str]) -> None:
    """Name the flow run by what it does and for whom, and tag it with its organizations.

    Args:
        what: What it does, in a few words.
        codes: The codes of the organizations.
    """
    known = runtime.flow_run.tags or ()
    tags = list(dict.fromkeys([*known, *map(tag_of, codes[:TAGS_MAX])]))
    try:
        with get_client(sync_client=True) as client:
            client.update_flow_run(runtime.flow_run.id, name=f"{what} for {whom(codes)}", tags=tags)
    except (PrefectException, httpx.HTTPError) as error:
        # The work does not depend on how it is called.
        get_run_logger().warning("the run has no name: %s: %s", type(error).__name__, error)
