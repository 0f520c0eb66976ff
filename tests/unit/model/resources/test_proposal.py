from meterlake.model.customers.accounts import Account
from meterlake.model.resources import BY_ENTITY
from meterlake.model.resources.proposal import Proposal
from meterlake.model.values.entity import Record
from tests.organizations import Clock

ACME = Account(code="acme", name="Acme", email_address="a@b.example")


def proposal(entity, before):
    return Proposal("a.yaml: accounts[0]", BY_ENTITY[Account], "1", entity, before, ())


def test_a_proposal_is_a_change_if_anything_would_be_written():
    now = Clock()()
    stored = Record("1", 3, ACME, now, "a", now, "a")
    renamed = ACME.model_copy(update={"name": "Acme Ltd"})

    assert proposal(ACME, None).changed
    assert proposal(renamed, stored).changed
    assert not proposal(ACME.model_copy(), stored).changed
    assert proposal(renamed, stored).record().version == 4
    assert proposal(ACME, None).record().version == 1
