"""The API's document in OpenAPI 3.0, derived from the tables that the API itself runs on."""

from meterlake.api.openapi.builder import build, document, encode_document

__all__ = ["build", "document", "encode_document"]
