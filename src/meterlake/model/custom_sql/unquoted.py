"""The words of a query that DuckDB's parser does not understand."""

import re
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Final

_NEAR: Final = re.compile(r'at or near "(.*?)"', re.DOTALL)


def unquoted_field(
    message: str, words: Sequence[str], columns: Collection[str], keywords: Collection[str]
) -> str | None:
    """The field whose code means something else in SQL, if that may be why there is no tree.

    Args:
        message: What the parser says.
        words: The query's tokens in lower case.
        columns: The columns of `measurements`.
        keywords: Words that are no name unless they are quoted.
    """
    found = _NEAR.search(message)
    near = found[1].lower() if found else ""
    # The parser stops at such a word, or at the one after it.
    stops = [near, *(before for before, word in pairwise(words) if word == near)]
    codes = {code.casefold(): code for code in columns if code.casefold() in keywords}
    return next((codes[word] for word in stops if word in codes), None)
