"""What the e-mail of a bill says, and how it would read with other words."""

from typing import Final

from starlette.responses import Response

from meterlake.console.bills.bills import BILLS
from meterlake.console.shell.page import Visit, page_routes
from meterlake.model.configuration.email_template import EXAMPLES, PLACEHOLDERS


async def show_letter(visit: Visit) -> Response:
    """The letter of a bill, with the words of the organization or with those that were sent."""
    id_ = visit.request.path_params["id"]
    tried = {name: visit.field(name) for name in ("subject", "text") if visit.field(name)}
    words = {} if visit.refusal is not None else tried
    letter = await visit.api.send("POST", f"/bills/{id_}/letters/preview", words)
    settings = await visit.api.find("/organizationconfig") or {}
    return visit.page(
        "bills/letter.html",
        letter=letter,
        id=id_,
        subject=tried.get("subject", settings.get("billLetterSubject", "")),
        text=tried.get("text", settings.get("billLetterText", "")),
        placeholders=PLACEHOLDERS,
        examples=EXAMPLES,
    )


ROUTES: Final = (
    *page_routes(
        f"{BILLS}/{{id}}/letter",
        show_letter,
        show_letter,
        "ConsoleLetter",
        needs="PreviewBillLetter",
    ),
)
