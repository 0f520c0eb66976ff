"""Flows by the names that jobs and deployments know them by."""

from importlib import import_module
from typing import Any


def flow_of(kind: str) -> Any:
    """The flow of a kind; this imports Prefect.

    Args:
        kind: A module of this package with a flow of the same name, or `module:flow`.
    """
    module, _, name = kind.partition(":")
    return getattr(import_module(f"flows.{module}"), name or module)
