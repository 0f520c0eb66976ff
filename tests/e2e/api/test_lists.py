"""Lists page by page, with their filters, and searches."""

import base64
import itertools
import re
import uuid
from pathlib import Path

import m3ter
import pytest

from meterlake import api
from meterlake.api.openapi.builder import query_names
from meterlake.api.routes import OPERATIONS
from tests.e2e.api.asking import listed, refusal
from tests.e2e.api.world import END, START


@pytest.fixture(scope="module")
def products(sdk, world):
    """The ids of products, the newest first."""
    made = [sdk.products.create(name=f"Product {n}", code=world.code()).id for n in range(25)]
    return made[::-1]


def pages(http, path, **query):
    """The pages of a list until there is no token."""
    token = None
    for _ in range(1000):
        found = http.get(path, params={**query, **({"nextToken": token} if token else {})})
        assert found.status_code == 200, found.text
        document = found.json()
        yield document
        token = document.get("nextToken")
        if not token:
            return
    raise AssertionError("the list does not end")


def ids(documents):
    return [each["id"] for document in documents for each in document["data"]]


@pytest.mark.parametrize("size", [1, 7, 24, 25, 26, 200])
def test_pages_hold_every_entity_once_newest_first(http, products, size):
    found = list(pages(http, "/products", pageSize=size, ids=",".join(products)))
    assert ids(found) == products
    assert all(len(page["data"]) <= size for page in found)
    assert len(found) == -(-len(products) // size)
    assert "nextToken" not in found[-1]


def test_the_sdk_walks_all_pages(sdk, products):
    assert listed(sdk.products, {}, page_size=3, ids=products) == products


def test_pages_stay_while_rows_are_added_and_deleted(sdk, http, products, world):
    extra = [sdk.products.create(name="Extra", code=world.code()).id for _ in range(3)]
    seen = []
    for number, page in enumerate(pages(http, "/products", pageSize=4)):
        seen += ids([page])
        sdk.products.create(name="Later", code=world.code())
        if number == 0:
            # One that was seen, and the one that the token may stand for.
            sdk.products.delete(seen[0])
            sdk.products.delete(seen[2])
    assert len(seen) == len(set(seen))
    assert seen[:3] == extra[::-1]
    assert set(products) <= set(seen)


@pytest.mark.parametrize("token", ["x", "0", "-1", "AAAA", "%", "e30=", "9" * 500, "é", "\x7f"])
@pytest.mark.parametrize("path", ["/products", "/users", "/resourcegroups/meter", "/events"])
def test_a_token_of_ones_own_making_is_refused(http, path, token):
    found = http.get(path, params={"nextToken": token})
    assert found.status_code == 400, found.text
    assert "nextToken" in found.json()["message"]


@pytest.mark.usefixtures("products")
def test_a_token_leads_on_in_its_own_list_alone(sdk, http, world):
    balances = [world.new_balance(world.account) for _ in range(2)]
    for balance in balances:
        for amount in (1, 2):
            sdk.balances.transactions.create(balance_id=balance, amount=amount, description="d")
    for _ in range(2):
        world.new_account(parent_account_id=world.account)
    lists = [
        "/accounts",
        "/products",
        "/events",
        "/balances",
        f"/accounts/{world.account}/children",
        *(f"/balances/{balance}/transactions" for balance in balances),
    ]
    tokens = {each: http.get(each, params={"pageSize": 1}).json()["nextToken"] for each in lists}

    for of, token in tokens.items():
        for path in [*lists, "/plans", "/users", "/measurements/rejected"]:
            found = http.get(path, params={"pageSize": 1, "nextToken": token})
            assert found.status_code == (200 if path == of else 400), (of, path, found.text)
            assert path == of or "of the same list" in found.json()["message"]


@pytest.mark.usefixtures("accounts")
def test_a_search_goes_on_from_a_document_or_a_token(http):
    def page(**more):
        found = http.get("/accounts/search", params={"pageSize": 1, **more})
        assert found.status_code == 200, found.text
        return found.json()

    first = page()
    assert int(first["nextToken"]) < 2**53
    for way in ({"fromDocument": 1}, {"fromDocument": first["nextToken"]}):
        second = page(nextToken=first["nextToken"])
        assert page(**way) == second
        assert second["data"][0]["id"] != first["data"][0]["id"]
    third = page(fromDocument=1, nextToken=second["nextToken"])
    assert third == page(fromDocument=2)


SEARCHED = {"searchQuery": "name~Zeta", "pageSize": 1}


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        ("/accounts/search", {"searchQuery": "name~zeta"}),
        ("/accounts/search", {"searchQuery": "", "operator": "OR"}),
        ("/accounts/search", {"operator": "OR"}),
        ("/accounts/search", {"sortBy": "name"}),
        ("/accounts/search", {"sortOrder": "ASC"}),
        ("/bills/search", {"searchQuery": ""}),
        ("/accounts", {}),
    ],
)
@pytest.mark.parametrize("name", ["nextToken", "fromDocument"])
@pytest.mark.usefixtures("accounts")
def test_a_token_of_a_search_leads_on_in_that_search_alone(http, path, changes, name):
    if (path, name) == ("/accounts", "fromDocument"):
        return  # It has none.
    token = http.get("/accounts/search", params=SEARCHED).json()["nextToken"]

    there = {**SEARCHED, "pageSize": 2, name: token}
    assert http.get("/accounts/search", params=there).status_code == 200
    elsewhere = http.get(path, params={**there, **changes})
    assert elsewhere.status_code == 400, elsewhere.text
    assert f"{name}: " in elsewhere.json()["message"]
    assert "of the page before, of the same" in elsewhere.json()["message"]


@pytest.mark.parametrize(
    ("path", "query", "said"),
    [
        ("/accounts", "search=Acme", "search is no parameter of ListAccounts and was ignored: did"),
        ("/accounts", "search=Acme", "did you mean searchQuery?"),
        ("/accounts", "search=", "search is no parameter of ListAccounts"),
        ("/bills", "search=x", "did you mean searchQuery of GET /organizations/{orgId}/bills/search?"),
        ("/accounts", "pagesize=5", "did you mean pageSize?"),
        ("/accounts", "page_size=5", "did you mean pageSize?"),
        ("/accounts", "ids=&colour=red", "colour is no parameter of ListAccounts and was ignored: it takes codes, "),
        ("/accounts/search", "query=name:x", "did you mean searchQuery?"),
        ("/bills", "acountId=x", "did you mean accountId?"),
        ("/organizationconfig", "colour=red", "it takes none"),
        ("/products/{product}", "asof=2026-01-01", "did you mean asOf?"),
        ("/products", "caf%C3%A9%22=1", "caf?' is no parameter of ListProducts"),
    ],
)  # fmt: skip
def test_a_parameter_that_means_nothing_is_told_with_the_nearest(http, world, path, query, said):
    found = http.get(f"{path.format(product=world.product)}?{query}")

    assert found.status_code == 200, found.text
    assert found.headers["Warning"].startswith('299 meterlake "')
    assert said in found.headers["Warning"]


def test_the_page_of_the_api_shows_such_a_warning_as_it_is(http):
    page = (Path(__file__).parents[3] / "docs" / "api.md").read_text("utf-8")
    [shown] = re.findall(r"`Warning: (.*is no parameter of.*)`", page)
    assert http.get("/accounts?pagesize=5").headers["Warning"] == shown


def test_parameters_that_mean_nothing_are_told_of_writes_and_beside_other_warnings(http, world):
    body = {"name": "Rule", "description": "d", "code": world.code()}
    event = {"eventName": "billing.bill.created"}
    made = http.post("/notifications/configurations?dryRun=true&why=", json={**body, **event})

    assert made.status_code == 200, made.text
    told = made.headers["Warning"]
    assert told.count("299 meterlake") == 3
    assert "dryRun is no parameter of CreateNotification" in told
    assert "it never goes out" in told


def test_parameters_that_there_are_are_told_nothing_of(http, world):
    for query in ("?pageSize=5&ids=&codes=x", f"/{world.account}?asOf=2200-01-01", ""):
        assert "Warning" not in http.get(f"/accounts{query}").headers


def test_every_parameter_that_is_read_is_one_that_an_operation_has():
    reading = r"""query\.(?:text|texts|flag|integer|one_of|day|instant)\(\s*"(\w+)"|"(\w+)" (?:not )?in call\.query"""
    folder = Path(api.__file__).parent
    texts = [each.read_text("utf-8") for each in folder.glob("*.py")]
    read = {name for text in texts for found in re.findall(reading, text) for name in found if name}
    declared = {name for each in OPERATIONS for name in query_names(each)}

    assert {"pageSize", "asOf", "billIds", "mappings"} & read
    assert read - declared == set()


@pytest.mark.parametrize("join", ["comma", "repeated"])
def test_several_values_are_joined_or_repeated(http, products, join):
    wanted = products[3:6]
    query = {"ids": ",".join(wanted)} if join == "comma" else {"ids": wanted}
    assert ids(pages(http, "/products", **query)) == wanted


def test_lists_are_narrowed_by_what_entities_refer_to(sdk, world):
    other = world.new_product()
    mine, template = world.new_meter(product_id=other), world.new_template(other)
    plan = world.new_plan(template)
    assert listed(sdk.meters, {}, product_id=[other]) == [mine]
    assert world.meter in listed(sdk.meters, {}, product_id=[other, world.product])
    assert listed(sdk.plan_templates, {}, product_id=other) == [template]
    assert listed(sdk.plans, {}, product_id=other) == [plan]
    assert listed(sdk.products, {}, ids=[other]) == [other]


def test_prices_are_listed_by_place_and_time(sdk, world):
    plan = world.new_plan()
    early, late = (
        sdk.pricings.create(
            plan_id=plan,
            aggregation_id=world.aggregation,
            start_date=start,
            end_date=end,
            pricing_bands=[{"lower_limit": 0, "fixed_price": 0, "unit_price": 1}],
        ).id
        for start, end in ((START, END), (END, "2028-01-01T00:00:00Z"))
    )
    assert listed(sdk.pricings, {}, plan_id=plan) == [late, early]
    assert listed(sdk.pricings, {}, plan_id=plan, date="2026-05-01") == [early]
    assert listed(sdk.pricings, {}, plan_id=plan, date="2027-01-01") == [late]
    assert listed(sdk.pricings, {}, plan_id=plan, date="2025-12-31") == []
    assert early in listed(sdk.pricings, {}, aggregation_id=world.aggregation)


def test_account_plans_are_listed_as_the_contract_says(sdk, world):
    account = world.new_account()
    ended = world.put_on(
        account, plan_id=world.plan, start_date=START, end_date="2026-02-01T00:00:00Z"
    )
    running = world.put_on(account, plan_id=world.plan, start_date="2026-02-01T00:00:00Z")
    assert listed(sdk.account_plans, {}, account=account) == [running]
    assert listed(sdk.account_plans, {}, account=account, includeall=True) == [running, ended]
    assert listed(sdk.account_plans, {}, account=account, product=world.product) == [running]
    assert listed(sdk.account_plans, {}, account=account, date="2026-01-15") == [ended]
    error = refusal(m3ter.BadRequestError, sdk.account_plans.list, product=world.product)
    assert "product" in error.body["message"]


def test_balances_are_listed_by_their_end(sdk, world):
    account = world.new_account()
    balance = world.new_balance(account, end_date="2026-06-01T00:00:00Z")
    where = {"account_id": account}
    assert listed(sdk.balances, {}, **where, end_date_start="2026-06-01") == [balance]
    assert listed(sdk.balances, {}, **where, end_date_end="2026-06-02") == [balance]
    assert listed(sdk.balances, {}, **where, end_date_end="2026-06-01") == []
    assert listed(sdk.balances, {}, **where, end_date_start="2026-06-02") == []


def test_picklists_are_listed_by_archived(sdk, world):
    used = sdk.credit_reasons.create(name="Used", code=world.code()).id
    archived = sdk.credit_reasons.create(name="Old", code=world.code(), archived=True).id
    assert archived in listed(sdk.credit_reasons, {}, archived=True)
    assert used not in listed(sdk.credit_reasons, {}, archived=True)
    assert archived not in listed(sdk.credit_reasons, {}, archived=False)


@pytest.mark.sees("ListAccountChildren")
def test_children_are_listed_of_their_parent(sdk, world):
    parent = world.new_account()
    children = [world.new_account(parent_account_id=parent) for _ in range(3)]
    found = [each.id for each in sdk.accounts.list_children(parent, page_size=2)]
    assert found == children[::-1]


# --- Searches -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def accounts(sdk, world):
    """Accounts by name that nothing else has."""
    made = {}
    for number, (name, currency) in enumerate(
        (("Zeta One", "USD"), ("Zeta Two", "USD"), ("zeta three", "EUR"), ("Yota % _ Four", "USD"))
    ):
        _currency(sdk, currency)
        made[name] = world.new_account(
            name=name, currency=currency, purchase_order_number=f"PO {number}"
        )
    return made


def _currency(sdk, code):
    if code not in [each.code for each in sdk.currencies.list()]:
        sdk.currencies.create(name=code, code=code)


def names(found):
    return [each.name for each in found.data or []]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("name:Zeta One", ["Zeta One"]),
        ("name~Zeta", ["zeta three", "Zeta Two", "Zeta One"]),
        ("name~Zeta T", ["zeta three", "Zeta Two"]),
        ("name~Zeta$currency:EUR", ["zeta three"]),
        ("name~Zeta$purchaseOrderNumber:PO 1", ["Zeta Two"]),
        ("name~Yota %", ["Yota % _ Four"]),
        ("name~%", []),
        ("name~_", []),
        ("name:Zeta", []),
        ("name>Zeta O$name<Zeta P", ["Zeta One"]),
        ("name>=Zeta One$name<=Zeta One", ["Zeta One"]),
        ("name~' OR 1=1 --", []),
    ],
)
@pytest.mark.usefixtures("accounts")
@pytest.mark.sees("SearchAccounts")
def test_a_search_finds_what_its_terms_say(sdk, query, wanted):
    assert names(sdk.accounts.search(search_query=query)) == wanted


@pytest.mark.usefixtures("accounts")
def test_terms_are_joined_by_the_operator(sdk):
    query = "name:Zeta One$name:Zeta Two"
    assert names(sdk.accounts.search(search_query=query, operator="AND")) == []
    either = sdk.accounts.search(search_query=query, operator="OR")
    assert names(either) == ["Zeta Two", "Zeta One"]


def test_a_search_finds_ids_and_codes(sdk, accounts):
    one, two = accounts["Zeta One"], accounts["Zeta Two"]
    assert names(sdk.accounts.search(search_query=f"id:{one}")) == ["Zeta One"]
    assert names(sdk.accounts.search(search_query=f"ids:{one},{two}")) == ["Zeta Two", "Zeta One"]
    code = sdk.accounts.retrieve(one).code
    assert names(sdk.accounts.search(search_query=f"code:{code}")) == ["Zeta One"]
    assert names(sdk.accounts.search(search_query=f"codes:{code}")) == ["Zeta One"]


def test_a_search_finds_children_by_their_parent(sdk, world):
    parent = world.new_account()
    child = world.new_account(parent_account_id=parent)
    found = sdk.accounts.search(search_query=f"parentAccountId:{parent}")
    assert [each.id for each in found.data or []] == [child]


def test_a_search_finds_by_the_time_of_creation(sdk, accounts):
    one = sdk.accounts.retrieve(accounts["Zeta One"])
    at = one.to_dict(mode="json")["dtCreated"]
    assert "Zeta One" in names(
        sdk.accounts.search(search_query=f"name~Zeta$dtCreated<={at}", page_size=100)
    )
    assert names(sdk.accounts.search(search_query="name~Zeta$dtCreated>2200-01-01T00:00:00Z")) == []


@pytest.mark.parametrize("order", ["ASC", "DESC"])
@pytest.mark.usefixtures("accounts")
def test_a_search_is_sorted_by_a_field(sdk, order):
    found = names(
        sdk.accounts.search(
            search_query="name~Zeta", sort_by="purchaseOrderNumber", sort_order=order
        )
    )
    rising = ["Zeta One", "Zeta Two", "zeta three"]
    assert found == (rising if order == "ASC" else rising[::-1])


def test_a_search_gives_ten_at_first_and_goes_on_from_a_document(sdk, world):
    parent = world.new_account()
    children = [world.new_account(parent_account_id=parent) for _ in range(13)][::-1]
    query = f"parentAccountId:{parent}"
    first = sdk.accounts.search(search_query=query)
    assert [each.id for each in first.data or []] == children[:10]
    assert first.next_token
    rest = sdk.accounts.search(search_query=query, from_document=int(first.next_token))
    assert [each.id for each in rest.data or []] == children[10:]
    assert not rest.next_token


@pytest.mark.sees("SearchCommitments")
def test_commitments_are_searched(sdk, world):
    account = world.new_account()
    made = [
        sdk.commitments.create(
            account_id=account,
            currency="USD",
            amount=1,
            start_date=start,
            end_date="2027-01-01",
            product_ids=[world.product],
        ).id
        for start in ("2026-01-01", "2026-06-01")
    ]
    for query, wanted in (
        (f"accountId:{account}", made[::-1]),
        (f"accountId:{account}$startDate>2026-01-01", made[1:]),
        (f"accountId:{account}$startDate:2026-01-01", made[:1]),
        (f"accountId:{account}$productId:{world.product}", made[::-1]),
        (f"accountId:{account}$productIds:{world.product}", made[::-1]),
        (f"accountId:{account}$endDate<2027-01-01", []),
    ):
        found = sdk.commitments.search(search_query=query)
        assert [each.id for each in found.data or []] == wanted, query


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({"searchQuery": "colour:red"}, "colour"),
        ({"searchQuery": "name"}, "searchQuery"),
        ({"searchQuery": "$".join(itertools.repeat("name:a", 200))}, "searchQuery"),
        ({"sortBy": "colour"}, "sortBy"),
        ({"sortOrder": "UP"}, "sortOrder"),
        ({"operator": "XOR"}, "operator"),
        ({"pageSize": "0"}, "pageSize"),
        ({"pageSize": "101"}, "pageSize"),
        ({"fromDocument": "-1"}, "fromDocument"),
        ({"fromDocument": "x"}, "fromDocument"),
        ({"nextToken": "3.0a1b2c3d4e5f"}, "nextToken"),
        ({"nextToken": "9" * 5000}, "nextToken"),
        ({"searchQuery": "name:\x00"}, "searchQuery"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(http, query, named):
    found = http.get("/accounts/search", params=query)
    assert found.status_code == 400, found.text
    assert named in found.json()["message"]


# ---- Lists in the order of a field, and narrowed by terms -----------------------------------------


@pytest.fixture(scope="module")
def kin(world):
    """The children of an account: two have the same name, some have no purchase order."""
    parent = world.new_account()
    names = ["delta", "Alpha", "charlie", "Bravo", "alpha", "écho"]
    for number, name in enumerate(names):
        orders = {} if number % 2 else {"purchase_order_number": f"PO {9 - number}"}
        world.new_account(name=name, parent_account_id=parent, **orders)
    return f"/accounts/{parent}/children"


@pytest.mark.parametrize("size", [1, 2, 5, 6, 100])
@pytest.mark.parametrize(
    ("query", "member", "wanted"),
    [
        ({"sortBy": "name", "sortOrder": "ASC"}, "name", ["Alpha", "alpha", "Bravo", "charlie", "delta", "écho"]),
        ({"sortBy": "name"}, "name", ["écho", "delta", "charlie", "Bravo", "alpha", "Alpha"]),
        ({"sortBy": "code", "sortOrder": "ASC"}, "name", ["delta", "Alpha", "charlie", "Bravo", "alpha", "écho"]),
        ({"sortOrder": "ASC"}, "name", ["delta", "Alpha", "charlie", "Bravo", "alpha", "écho"]),
        ({"sortBy": "dtCreated"}, "name", ["écho", "alpha", "Bravo", "charlie", "Alpha", "delta"]),
        ({"sortBy": "purchaseOrderNumber", "sortOrder": "ASC"}, "purchaseOrderNumber", ["PO 5", "PO 7", "PO 9"]),
        ({"sortBy": "purchaseOrderNumber"}, "purchaseOrderNumber", ["PO 9", "PO 7", "PO 5"]),
    ],
)  # fmt: skip
def test_a_list_is_in_the_order_of_a_field_on_pages_of_any_size(
    http, kin, size, query, member, wanted
):
    found = list(pages(http, kin, pageSize=size, **query))

    rows = [each for page in found for each in page["data"]]
    said = [each[member] for each in rows if member in each]
    assert len({each["id"] for each in rows}) == len(rows) == 6
    # Of the same name the ids decide; what has no value is behind all that has one.
    assert [each.lower() for each in said] == [each.lower() for each in wanted]
    assert all(member in each for each in rows[: len(said)])


@pytest.mark.parametrize("order", ["ASC", "DESC"])
def test_a_list_is_in_the_order_of_numbers_dates_and_truths(sdk, http, world, order):
    account = world.new_account()
    amounts = [9, 10, 100, 1.5, 10]
    for number, amount in enumerate(amounts):
        sdk.commitments.create(
            account_id=account,
            currency="USD",
            amount=amount,
            start_date=f"2026-0{number + 1}-01",
            end_date="2027-01-01",
            separate_overage_usage=bool(number % 2),
        )
    for field, wanted in (
        ("amount", sorted(amounts)),
        ("startDate", [f"2026-0{number}-01" for number in range(1, 6)]),
        ("separateOverageUsage", [False, False, False, True, True]),
    ):
        query = {"accountId": account, "sortBy": field, "sortOrder": order, "pageSize": 2}
        found = list(pages(http, "/commitments", **query))
        rows = [each[field] for page in found for each in page["data"]]
        assert rows == (wanted if order == "ASC" else wanted[::-1]), field


def test_a_sorted_list_stays_while_rows_are_added_and_deleted(sdk, http, world):
    mark = world.code()
    made = [
        sdk.products.create(name=f"{mark} {n:02}", code=world.code()).id for n in range(0, 20, 2)
    ]
    query = {"searchQuery": f"name~{mark}", "sortBy": "name", "sortOrder": "ASC", "pageSize": 3}
    seen = []
    for number, page in enumerate(pages(http, "/products", **query)):
        seen += ids([page])
        if number == 0:
            sdk.products.create(name=f"{mark} 00 before", code=world.code())
            after = sdk.products.create(name=f"{mark} 05 behind", code=world.code()).id
            # The one that the token stands for.
            sdk.products.delete(seen[2])

    assert seen == [*made[:3], after, *made[3:]]


def test_a_list_is_narrowed_by_terms_beside_its_filters(http, kin):
    def names(**query):
        found = [
            each["name"] for page in pages(http, kin, pageSize=2, **query) for each in page["data"]
        ]
        return sorted(found)

    assert names(searchQuery="name~AL") == ["Alpha", "alpha"]
    assert names(searchQuery="name~al$purchaseOrderNumber~PO 5") == ["alpha"]
    assert names(searchQuery="name~al$name:Bravo", operator="OR") == ["Alpha", "Bravo", "alpha"]
    assert names(searchQuery="name~nobody") == []


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"sortBy": "colour"}, "sortBy: 'colour' is not allowed: it must be one of "),
        ({"sortBy": "customFields"}, "sortBy: 'customFields' is not allowed: it must be one of "),
        ({"sortBy": "name$"}, "sortBy: 'name$' is not allowed: it must be one of "),
        ({"sortOrder": "UP"}, "sortOrder: 'UP' is not allowed: it must be one of ASC, DESC"),
        (
            {"searchQuery": "colour:red"},
            "searchQuery: 'colour' is not allowed: it must be one of the fields ",
        ),
        ({"operator": "XOR"}, "operator: 'XOR' is not allowed: it must be one of AND, OR"),
    ],
)
@pytest.mark.parametrize("path", ["/accounts", "/plans", "/balances", "/serviceusers"])
def test_an_order_or_a_term_that_makes_no_sense_is_refused(http, path, query, said):
    found = http.get(path, params=query)

    # Not every kind has custom fields, but none is ordered by them.
    assert found.status_code == 400, found.text
    assert said in found.json()["message"]


@pytest.mark.parametrize(
    "changes", [{"sortBy": "code"}, {"sortOrder": "DESC"}, {"sortBy": "", "sortOrder": ""}]
)
def test_a_token_leads_on_in_its_own_order_alone(http, kin, changes):
    query = {"sortBy": "name", "sortOrder": "ASC", "pageSize": 1}
    token = http.get(kin, params=query).json()["nextToken"]

    assert http.get(kin, params={**query, "nextToken": token}).status_code == 200
    found = http.get(kin, params={**query, **changes, "nextToken": token})
    assert found.status_code == 400, found.text
    assert "nextToken: " in found.json()["message"]


@pytest.mark.parametrize(
    "place",
    [
        b'["amount", true, "x", "1"]',
        b'["amount", true, "1e99999", "1"]',
        b'["amount", true, 5, "1"]',
        b'["amount", true, "5", "\\u0000"]',
        b'["amount", true, "5", "\\ud800"]',
        b'["amount", true, "5"]',
        b"[" * 5000,
    ],
)
def test_a_place_of_ones_own_making_is_refused(sdk, http, world, place):
    account = world.new_account()
    for _ in range(2):
        span = {"start_date": START[:10], "end_date": END[:10]}
        sdk.commitments.create(account_id=account, currency="USD", amount=1, **span)
    query = {"accountId": account, "sortBy": "amount", "sortOrder": "ASC", "pageSize": 1}
    mark = http.get("/commitments", params=query).json()["nextToken"].rpartition(".")[2]
    token = base64.urlsafe_b64encode(place).decode().rstrip("=")

    found = http.get("/commitments", params={**query, "nextToken": f"{token}.{mark}"})
    assert found.status_code == 400, found.text
    assert "nextToken: " in found.json()["message"]


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/runs", ["dtCreated"]),
        ("/auditlog", ["at"]),
        ("/lateusage", ["dtFound"]),
        ("/backfills", ["dtCreated"]),
        ("/changeproposals", ["dtCreated"]),
        ("/measurements/sources", ["finishedAt"]),
        ("/measurements/mappings", ["name", "saved"]),
        ("/fileuploads/measurements/jobs", ["dtCreated"]),
        ("/users", ["email", "firstName", "lastName", "dtCreated"]),
    ],
)
def test_a_list_of_what_happens_takes_its_own_order_alone(http, path, fields):
    for field in fields:
        for order in ("ASC", "DESC"):
            found = http.get(path, params={"sortBy": field, "sortOrder": order})
            assert found.status_code == 200, (field, found.text)
            assert "Warning" not in found.headers
    for query, said in (
        ({"sortBy": "colour"}, f"sortBy: 'colour' is not allowed: it must be one of {fields[0]}"),
        ({"sortOrder": "UP"}, "sortOrder: 'UP' is not allowed: it must be one of ASC, DESC"),
    ):
        found = http.get(path, params=query)
        assert found.status_code == 400, found.text
        assert said in found.json()["message"]


def test_the_log_turns_round_page_by_page(http, world):
    for _ in range(3):
        world.new_account()
    rows = {
        order: [
            each["id"]
            for page in itertools.islice(pages(http, "/auditlog", pageSize=7, sortOrder=order), 400)
            for each in page["data"]
        ]
        for order in ("ASC", "DESC")
    }

    assert len(rows["ASC"]) == len(set(rows["ASC"])) > 7
    assert rows["ASC"] == rows["DESC"][::-1]


def test_users_are_found_by_what_they_are_called(http):
    assert http.get("/users", params={"searchQuery": "email~nobody"}).json() == {"data": []}
    found = http.get("/users", params={"searchQuery": "email:ada@example.com"})
    assert found.status_code == 400
    assert (
        "a field, ~ and what it begins with, or * and what it has within" in found.json()["message"]
    )


@pytest.mark.parametrize("path", ["/accounts/search", "/accounts"])
def test_a_text_is_found_within_another_whatever_the_case(sdk, http, path):
    mark = uuid.uuid4().hex
    made = sdk.accounts.create(
        name=f"Juniper {mark}% Pharma", code=mark, email_address="bills@juniper.example"
    )

    def found(term):
        return [each["id"] for each in http.get(path, params={"searchQuery": term}).json()["data"]]

    assert found(f"name*{mark[3:].upper()}% ph") == [made.id]
    assert found(f"code*{mark[3:20]}") == [made.id]
    # What means something to a database is a letter like others.
    assert found(f"name*{mark}_") == found(f"name~{mark}") == []
