"""The page on documents lists every member that templates are given, with its type."""

import re
import types
import typing
from pathlib import Path

from meterlake.model.bills.document import AppendixDetail, BillDocument
from meterlake.pipeline.documents.content import DAYS_MAX

PAGE = Path(__file__).parents[4] / "docs" / "documents.md"
NAMES = {str: "text", bool: "true or false", int: "whole number"}


def members(kind, path=""):
    """The paths of a document with the words for their types; `*` is each of a list."""
    for name, hint in typing.get_type_hints(kind).items():
        yield from member(f"{path}.{name}" if path else name, hint)


def member(path, hint, suffix=""):
    arguments = typing.get_args(hint)
    if isinstance(hint, types.UnionType):
        [inner] = [each for each in arguments if each is not types.NoneType]
        yield from member(path, inner, " or null")
    elif typing.get_origin(hint) is list:
        yield path, "list of texts" if arguments == (str,) else "list"
        if arguments != (str,):
            yield from members(arguments[0], f"{path}.*")
    elif typing.get_origin(hint) is dict:
        yield path, "map of texts"
    elif typing.is_typeddict(hint):
        yield path, f"map{suffix}"
        yield from members(hint, path)
    else:
        yield path, NAMES[hint] + suffix


def test_the_page_lists_every_member():
    listed = re.findall(
        r"^\| `([a-zA-Z.*]+)` \| ([a-z ]+) \| .+ \|$", PAGE.read_text("utf-8"), re.MULTILINE
    )
    table = PAGE.read_text("utf-8").partition("<!-- members:begin")[2]
    assert [each for each in listed if f"`{each[0]}`" in table] == list(members(BillDocument))


def test_the_page_names_the_details_of_usage_and_their_limits():
    text = PAGE.read_text("utf-8")
    for each in AppendixDetail:
        assert f"`{each}`" in text
    assert f"more than {DAYS_MAX} lines of usage" in text
