"""The names of people and programs behind what an entity says of who changed it."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from meterlake.console.shell.api import ApiClient

# What people are called whose names one may not read.
OTHER_PERSON: Final = "USER"


async def names_of_authors(api: ApiClient) -> dict[str, str]:
    """Names by `createdBy`, `lastModifiedBy` and the like; none that the person may not read."""
    users, programs = await asyncio.gather(api.every("/users"), api.every("/serviceusers"))
    names = {f"USER_{each['id']}": full_name(each) for each in users}
    return names | {f"SERVICE_USER_{each['id']}": str(each["name"]) for each in programs}


def full_name(user: Mapping[str, Any]) -> str:
    """What a person is called: by first and last name, or else by the e-mail address."""
    parts = (user.get("firstName"), user.get("lastName"))
    return " ".join(filter(None, parts)) or str(user.get("email", ""))


def author_name(author: str | None, names: Mapping[str, str]) -> str:
    """Who an author is: a person, a program, or a word of meterlake itself."""
    if not author:
        return ""
    if author in names:
        return names[author]
    if author.startswith("USER_"):
        return names.get(OTHER_PERSON, "somebody who left")
    if author.startswith("SERVICE_USER_"):
        return "a program that is gone"
    return "meterlake" if author == "SYSTEM" else author
