"""The sample organization in a home: its configuration, and its files in the drop folder."""

import os
import secrets
import shutil
from typing import Any, Final, NamedTuple

import sample_data
from meterlake.model.catalog.catalog import Meter, Product
from meterlake.model.catalog.plans import PlanTemplate
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Conflict
from meterlake.model.resources import code_of
from meterlake.pipeline.access.users import first_person_links, join_first, sign_in_link
from meterlake.pipeline.config import apply_configuration
from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.settings import Settings
from meterlake.stores import Organization, open_stores

NAME: Final = "Halvorsen Cloud"
MONTH: Final = sample_data.MONTH
# Who looks at the sample in the console.
PERSON: Final = {
    "firstName": "Robin",
    "lastName": "Halvorsen",
    "email": "robin@halvorsen.example",
}


def next_steps(*, kept: bool) -> dict[str, str]:
    """Three commands to go on with after the sample's month, by what they are for.

    Args:
        kept: Whether the home is still there; else they lead to a home of one's own.
    """
    if kept:
        return {
            "Look at what should be looked at before the bills are approved:": (
                f"bill review --month {MONTH}"
            ),
            "Ask the data anything:": 'sql "FROM bill_line LIMIT 10"',
            "Start the API and the console of this home:": "serve",
        }
    return {
        "Look around in it, in your browser:": "demo --console",
        "Begin your own:": 'init --name "Your company"',
        "Start its API and its console:": "serve",
    }


def create_sample(settings: Settings) -> str:
    """Create the sample organization, configured and with all its files dropped; its code.

    Raises:
        Conflict: The home has it already.
    """
    made = initialize(settings, NAME)
    with open_stores(settings) as stores:
        load_sample(stores.find_organization(made.org_id), "demo")
    return made.org_code


def load_sample(organization: Organization, author: str) -> dict[str, Any]:
    """Give an organization that has nothing the sample's configuration, and its files to ingest.

    Once more brings what is missing: no measurement counts twice.

    Returns:
        The month that the sample has usage of, and how many entities and files it brings.

    Raises:
        Conflict: The organization has meters, products, plans or customers of its own.
    """
    documents = apply_configuration.read_documents([sample_data.CONFIGURATION])
    meters = {each["code"] for one in documents for each in one.content.get("meters", ())}
    with organization.reading() as reader:
        own = {each.entity.code for each in reader.all(Meter)}
        # What would be overwritten: without meters nobody has loaded the sample before.
        kinds = () if own else (Product, PlanTemplate, Account)
        named = [str(code_of(each.entity)) for kind in kinds for each in reader.all(kind)]
    if others := sorted(own - meters) or sorted(named):
        raise Conflict(
            f"the organization has things of its own, such as {others[0]}; load the sample into one"
            " that has none"
        )
    changes = apply_configuration.apply(organization.state, organization.id, documents, author)
    files = drop_sample(organization)
    return {"month": MONTH, "entities": len(changes), "files": files}


class SampleSignIn(NamedTuple):
    """How the administrator of the sample signs in.

    Attributes:
        token: Of a link that signs in once.
        email: What the person signs in with afterwards.
        password: With it; drawn for this home alone.
    """

    token: str
    email: str
    password: str


def sign_in_sample(settings: Settings) -> SampleSignIn:
    """Make the administrator of the sample, whom nobody has been yet."""
    with open_stores(settings) as stores:
        state, [organization] = stores.state, stores.state.organizations()
        first = first_person_links(state)[organization.code]
        password = secrets.token_urlsafe()
        person = join_first(state, first, password, PERSON)
        token = sign_in_link(state, organization.id, person)
        return SampleSignIn(token, PERSON["email"], password)


def drop_sample(organization: Organization) -> int:
    """Put the sample's files into the drop folder, in the order of their names; how many."""
    folder = drop_folder(organization.stores, organization.code)
    folder.create()
    for path in sample_data.MAPPINGS.iterdir():
        shutil.copy(path, folder.mappings)
    files = sorted(sample_data.MEASUREMENTS.iterdir())
    for number, path in enumerate(files):
        # Under a hidden name until its age says that it came before the next one.
        hidden = folder.inbox / f".{path.name}"
        shutil.copy(path, hidden)
        dropped = organization.now().timestamp() - 60 + number / 100
        os.utime(hidden, (dropped, dropped))
        hidden.rename(folder.inbox / path.name)
    return len(files)
