"""The version of the running code, for what is pinned and published."""

from importlib.metadata import PackageNotFoundError, version


def code_version() -> str:
    """The installed version of meterlake; `unknown` where it runs without being installed."""
    try:
        return version("meterlake")
    except PackageNotFoundError:
        return "unknown"
