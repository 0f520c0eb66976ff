"""What processes that crash do with runs of integrations."""

from typing import Any

from tests.deliveries import send_due
from tests.homes import Home


def send(home: Home) -> dict[str, Any]:
    """Send what is due."""
    send_due(home.stores)
    return {}


def send_later(home: Home) -> dict[str, Any]:
    """Send what is due when the leases of whoever died have ended."""
    home.clock.advance(minutes=2)
    return send(home)


def send_much_later(home: Home) -> dict[str, Any]:
    """Send what is due when whoever died is forgotten, and what failed is due again."""
    home.clock.advance(hours=1)
    return send(home)
