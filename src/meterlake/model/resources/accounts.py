"""Who pays: accounts and the plans that they are on."""

from typing import Final

from meterlake.model.accounts import Account, AccountPlan
from meterlake.model.organization import Currency
from meterlake.model.pricing import Plan
from meterlake.model.resources.resource import CODES, IDS, VERBS, Resource
from meterlake.model.rules.accounts import (
    account_plan_product,
    bespoke_plan_for_its_account,
    one_plan_or_group,
    one_plan_per_product,
)
from meterlake.model.rules.custom_fields import custom_fields_known
from meterlake.model.rules.spans import ends_after_start

ROWS: Final = (
    Resource(
        name="accounts",
        path="accounts",
        entity=Account,
        refs={"parent_account_id": Account},
        codes={"currency": Currency},
        rules=(custom_fields_known,),
        schema="Account",
        permission="account",
        event="configuration.account",
        verbs=VERBS | {"search"},
        filters=(IDS, CODES),
    ),
    Resource(
        name="accountPlans",
        path="accountplans",
        entity=AccountPlan,
        refs={"account_id": Account, "plan_id": Plan},
        key=("account_id", "plan_id", "plan_group_id", "start_date"),
        rules=(
            custom_fields_known,
            one_plan_or_group,
            ends_after_start,
            bespoke_plan_for_its_account,
            one_plan_per_product,
        ),
        computed=account_plan_product,
        schema="AccountPlan",
        permission="accountplan",
        event="configuration.accountplan",
        filters=(IDS,),
    ),
)
