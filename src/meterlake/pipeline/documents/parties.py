"""Who sends a bill and who pays it, as a document shows them.

The API's organization has no address. What a document needs of it stands in its custom fields,
under the names below; a customer's number for taxes stands in those of its account.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from meterlake.model.bills.document import DocumentParty
from meterlake.model.customers.accounts import Account, Address
from meterlake.model.values.money import plain
from meterlake.stages.document.texts import clean_lines, clean_text

Fields = Mapping[str, str | Decimal]

SELLER_NAME: Final = "sellerName"
SELLER_ADDRESS: Final = "sellerAddress"
SELLER_EMAIL: Final = "sellerEmail"
SELLER_TAX_ID: Final = "sellerTaxId"
CUSTOMER_TAX_ID: Final = "taxId"
# Of an address: those that stand in lines of their own before the place, and after it.
_STREET: Final = ("address_line1", "address_line2", "address_line3", "address_line4")


def seller_of(name: str, code: str, fields: Fields) -> DocumentParty:
    """The organization; what its custom fields do not say is not there."""
    texts = _texts(fields)
    return DocumentParty(
        name=clean_text(texts.get(SELLER_NAME) or name),
        code=clean_text(code),
        address=clean_lines(texts.get(SELLER_ADDRESS, "")),
        email=_optional(texts, SELLER_EMAIL),
        taxId=_optional(texts, SELLER_TAX_ID),
        fields=texts,
    )


def customer_of(account: Account, defaults: Fields) -> DocumentParty:
    """The account that is billed, with its custom fields, or what they are by default."""
    texts = _texts({**defaults, **account.custom_fields})
    return DocumentParty(
        name=clean_text(account.name),
        code=clean_text(account.code),
        address=address_lines(account.address),
        email=clean_text(account.email_address),
        taxId=_optional(texts, CUSTOMER_TAX_ID),
        fields=texts,
    )


def _texts(fields: Fields) -> dict[str, str]:
    """Custom fields as texts; one of several lines keeps them."""
    return {
        clean_text(name): "\n".join(clean_lines(value)) if isinstance(value, str) else plain(value)
        for name, value in sorted(fields.items())
    }


def _optional(texts: Mapping[str, str], name: str) -> str | None:
    return clean_text(texts.get(name, "")) or None


def address_lines(address: Address | None) -> list[str]:
    """An address as it stands on a letter."""
    if address is None:
        return []
    city = " ".join(filter(None, (address.post_code, address.locality)))
    lines = [*(getattr(address, name) for name in _STREET), city, address.region, address.country]
    return [line for each in lines if each for line in clean_lines(each)]
