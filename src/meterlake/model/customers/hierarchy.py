"""Parent and child accounts: who is billed for what a plan charges."""

from meterlake.model.customers.accounts import Account, AccountPlan, ChildBillingMode
from meterlake.model.values.entity import Configuration


def billed_account_id(account_plan: AccountPlan, configuration: Configuration) -> str:
    """The account on whose bill the lines of a plan stand.

    It is the parent of the account that is on the plan, unless the plan bills children.
    """
    account = configuration.get(Account, account_plan.account_id).entity
    if account_plan.child_billing_mode is ChildBillingMode.CHILD:
        return account_plan.account_id
    return account.parent_account_id or account_plan.account_id
