"""TEXTS: what operations that are no standard verb do, by the operation's id: a summary, and more."""

from typing import Final

_ENDS: Final = (
    "Sets one end date for what is listed in `billingEntities`: contracts, plans, prepayments, prices."
    " What ends before that date is left as it is. The answer lists what was changed and what was not."
)
_GRANT: Final = "The permissions hold within three seconds."
_REVOKE: Final = "The permissions end within three seconds."
_DOWNLOAD: Final = (
    "Takes the same body as the question without `/download`, and answers with a link to a file of"
    " all rows. The link works for five minutes."
)
_LINK: Final = "The link works without a token, for five minutes (`METERLAKE_DOWNLOAD_SECONDS`)."
_MEMO_GONE: Final = "The total of the bill changes, and it waits for approval again."
_MEMO: Final = (
    f"{_MEMO_GONE} The line stays when the bill is calculated again. It is a line of its own type, or a"
    " MANUAL_ADJUSTMENT if `lineItemType` says so; the bill must not be locked."
)
_RUNS: Final = (
    "One page, the newest first; made after `startDate`, and before or at `endDate`"
    " (of a date, the beginning and the end of its day)."
)
_CHOICES: Final = "What the systems that are installed declare."
_DRAFT: Final = "Only a draft can be written; a published revision stays as it is."

TEXTS: Final[dict[str, tuple[str, str]]] = {
    # Without a token.
    "GenerateToken": (
        "Get an access token",
        (
            "Give the id of an access key as user and its secret as password of Basic authentication,"
            " with `grant_type` `client_credentials`. The token is a signed JWT that works for five"
            " hours; send it as `Authorization: Bearer …`."
        ),
    ),
    "PutUploadFile": (
        "Upload a file",
        (
            "The URL comes from an operation that announces a file, and is all that the PUT needs. It"
            " works once, for one file of the announced length and content type. Either the whole file"
            " is kept, or nothing of it."
        ),
    ),
    "GetDownload": ("Download a file", "The URL comes from an operation that answers with a link."),
    "GetKeySet": (
        "Get the public keys",
        "The keys that access tokens are signed with, as a JWK set.",
    ),
    "GetLiveness": ("Ask whether the process lives", "Answers as long as the process runs."),
    "GetReadiness": (
        "Ask whether requests can be answered",
        "503 while the State database does not answer.",
    ),
    "GetMetrics": (
        "Get metrics for Prometheus",
        "Requests by operation and status, and their times.",
    ),
    # The configuration.
    "ListEntityReferences": (
        "List what an entity refers to and what refers to it",
        (
            "By codes and names, of each kind the first hundred. It needs the right to read the entity;"
            " what else you may not read is left out. What refers to an entity stands against its"
            " deletion."
        ),
    ),
    "ListEntityChanges": (
        "List the changes of an entity",
        (
            "Who changed which field from what to what, the newest change first; also of a deleted"
            " entity. With `including` you get the changes of entities that refer, or referred, to it:"
            " of a plan with `including=pricings` those of its prices. What is referred to stands there"
            " by its code. It needs the right to read the entity; what else you may not read is left out."
        ),
    ),
    "TryAggregation": (
        "Try an aggregation",
        (
            "The quantities that an aggregation would give for a month of the organization, account by"
            " account, before it is saved; `accounts` has the codes of some. Segments and rounding count,"
            " `defaultValue` does not. Nothing is kept."
        ),
    ),
    "ProposePriceScale": (
        "Show what prices would be",
        (
            "The prices of some plans and plan templates, multiplied by a factor or by a table of factors,"
            " or with the new unit prices of a table, from a day on: old and new price of each band. Nothing is written. With `effectMonth` the"
            " answer has what the bills of that month come to, as if the new prices had held since it"
            " began. With `ownPrices` plans get prices of their own in place of those of their templates."
            " `templates` says which plans and how many customers share the prices of a template,"
            " `charges` which standing charges and minimum spends stay. `review` is what `ApplyPriceScale` takes; with `mustPropose` that refuses you, as the"
            " organization wants two persons."
        ),
    ),
    "ApplyPriceScale": (
        "Change the prices of many plans",
        (
            "Takes the same body with the `review` of a proposal, and changes all prices or none. A price in"
            " force on the day ends there, and one with the new bands begins. 409 if a price has changed"
            " since the proposal. It needs the rights to update and create prices. 403 for a person if the"
            " organization wants two persons (`twoPersonApproval`) and customers have a plan: propose the"
            " change."
        ),
    ),
    "ListChangeProposals": (
        "List change proposals",
        (
            "One page, the newest first: who made each why, where it stands, and what was done with it."
            " With `entityId`, those that change an entity, such as a price, or made it."
        ),
    ),
    "ProposeChanges": (
        "Propose changes of the configuration",
        (
            "Keeps changes for a review; nothing changes yet. Give exactly one of `configuration`, which"
            " is what a configuration file holds, `scale`, which changes prices of many plans, and"
            " `price`, which gives one price other bands from an instant on. It needs the right to read"
            " what changes. Entities with secrets are refused. 409 if another open proposal has the name."
        ),
    ),
    "GetChangeProposal": (
        "Retrieve a change proposal",
        (
            "With every entity that changes, and every price band by band. While it is open, `stale` has"
            " what is no longer as its author saw it, and `problems` the rules that it breaks now. It"
            " needs the right to read what changes."
        ),
    ),
    "GetChangeProposalEffect": (
        "Show what a change proposal does to bills",
        (
            "What the bills of last month and this one would come to, by month and by customer; nothing is"
            " stored. A price that follows another one is calculated as if it had held since that one"
            " began. 409 unless it is open. Permission: `config:retrieve` on every `bill`, too."
        ),
    ),
    "ApproveChangeProposal": (
        "Approve a change proposal",
        (
            "It can be applied then. 403 if the organization wants two persons (`twoPersonApproval`) and"
            " you made it; 409 if something has changed since it was made."
        ),
    ),
    "RejectChangeProposal": (
        "Reject a change proposal",
        "Ends it with your comment, also when it is approved already; 409 if it has ended.",
    ),
    "WithdrawChangeProposal": (
        "Withdraw a change proposal",
        "Ends your own proposal; 403 if somebody else made it, 409 if it has ended.",
    ),
    "ProposeChangesAgain": (
        "Propose changes again",
        (
            "A new proposal with the name, the reason and the changes of one that was rejected or"
            " withdrawn, against the configuration of now. 409 if that one is open or applied, 400 if"
            " its changes break a rule now or are made already."
        ),
    ),
    "ApplyChangeProposal": (
        "Apply a change proposal",
        (
            "Makes all changes of an approved proposal, or none. 409 if it is not approved, or if something"
            " has changed since it was made; the message says what. It needs the right to make each change."
        ),
    ),
    # Bills.
    "ListBillJobs": (
        "List bill jobs",
        "One page of jobs, the newest first; with `active=TRUE` only those that have not ended.",
    ),
    "CreateBillJob": (
        "Make bills",
        (
            "Makes a job, which the worker runs: the bills whose period ends on"
            " `lastDateInBillingPeriod`, the day before `billDate`; without both, the bills that end"
            " the current period. Without `billingFrequency`, those of every frequency. Bills that are"
            " there already are calculated again, but locked ones. At most ten jobs may be unfinished."
        ),
    ),
    "RecalculateBillJob": (
        "Make chosen bills again",
        (
            "Makes a job that calculates bills again, each with the settings of the job that made it."
            " Locked bills stay as they are."
        ),
    ),
    "CheckBillRecalculation": (
        "Check a calculation of bills",
        (
            "Which other bills the calculation of these bills has to do with; nothing is calculated. Bills with"
            " `recalculated` draw from the same balances and commitments after them: the job calculates them, too,"
            " if less or more is left. Bills of the SAME_FAMILY are of the same day and of a parent account or a"
            " child: the job leaves them as they are; name them, too, if usage of all of them changed."
        ),
    ),
    "ListChangedBills": (
        "List the bills that a job changed",
        (
            "The bills that changed by a job which made chosen bills again, each with the total before and after"
            " it; `chosen` are those that the job names. Other jobs change nothing here."
        ),
    ),
    "GetBillJob": (
        "Get a bill job",
        (
            "`total` and `pending` count its bills. Accounts that could not be billed are in"
            " `failures`. `billIds` has its bills when it is complete, if they are at most 1,000."
        ),
    ),
    "PreviewBill": (
        "Preview a bill",
        (
            "Calculates the bill of one account as a job would, and stores nothing."
            " `accountIds` has exactly one account; `billingFrequency` and `billFrequencyInterval`"
            " are required. `debug` changes nothing."
        ),
    ),
    "CancelBillJob": (
        "Stop a bill job",
        "Bills that are stored already stay. A job that runs stops after the bills at hand.",
    ),
    "ListLateUsage": (
        "List late usage",
        (
            "Usage that came after the bill of its period: what brought it, by how much each line"
            " differs, and what was done by the policy `lateUsage` of the organization."
            " `period` is the month of the bill's last day, such as 2026-09."
        ),
    ),
    "GetClosing": (
        "Get the closing of a month",
        (
            "Where it stands, its bills, the largest 200, and what is open about them. `review` names"
            " the bills and quantities that wait for an approval. `pending` is what the worker does,"
            " `failed` why it could not. `month` is such as 2026-10, or `last`. For what is open, the month is"
            " billed once more if something was written since `openAt`; with `open=KNOWN` that is left out for more"
            " than 500 accounts, and `openIsCurrent` says whether it is as of now."
        ),
    ),
    "ReviewClosing": (
        "Make a month ready for its review",
        (
            "The worker ingests what waits, applies `backfills`, compares, aggregates and bills. What"
            " a worker began and did not end goes on. Bills that wait for an approval are made again,"
            " from what has come in by now. `files` are patterns of names that have to be there. A"
            " month that is not over needs `early`."
        ),
    ),
    "ApproveClosing": (
        "Approve the bills of a month",
        (
            "Approves what `review` of the closing names, if it is still the same; the worker exports,"
            " publishes and hands over then. The bills that `leaveOpen` names stay pending, each for a"
            " `reason`: the step `review` keeps them as `leftOpen`, and they are open points until"
            " somebody approves them."
        ),
    ),
    "RejectClosing": (
        "Reject the bills of a month",
        "The next run for the month begins at its first step.",
    ),
    "ReopenClosing": (
        "Open a closed month again",
        (
            "Its approved bills wait for an approval again, but for those that are locked or that"
            " other systems have. The answer says what stays."
        ),
    ),
    "ListStatementJobs": (
        "List statement jobs",
        (
            "One page of jobs, the newest first. Exactly one of `active`, `status` and `billId` says"
            " which; with `active=FALSE` they are all."
        ),
    ),
    "CreateStatementJob": (
        "Make a statement",
        (
            "Makes a job, which the worker runs: the statement of a bill as JSON, and as CSV with"
            " `includeCsvFormat`. With `filters.meterIds` the lines of usage of other meters are"
            " left out. The files take the place of those that the bill has."
        ),
    ),
    "CreateStatementJobBatch": (
        "Make statements of several bills",
        "Makes a job for each of up to ten bills. The answer is a bare array.",
    ),
    "GetStatementJob": (
        "Get a statement job",
        (
            "A complete job has links to its files while its bill has them. A file is `STALE` if the"
            " bill has changed since, and `INVALIDATED` if a later job made another one."
        ),
    ),
    "CancelStatementJob": (
        "Stop a statement job",
        "The bill keeps the statement that it has.",
    ),
    "CreateBillCsvStatement": (
        "Make a bill's statement as CSV",
        (
            "A link to the file. It is made, together with the one of JSON, unless the bill has it"
            " as it is now."
        ),
    ),
    "GetBillCsvStatement": (
        "Get a bill's statement as CSV",
        "A link to the file that the bill has, also if it is stale; 404 if there is none.",
    ),
    "GetBillJsonStatement": (
        "Get a bill's statement as JSON",
        "A link to the file that the bill has, also if it is stale; 404 if there is none.",
    ),
    # Users and permissions.
    "CreateAccessKey": (
        "Create an access key",
        "The answer has the secret, once: meterlake keeps only a hash of it.",
    ),
    "ListAccessKeys": (
        "List access keys",
        "One page of the keys of a service user, without secrets.",
    ),
    "GetAccessKey": ("Retrieve an access key", "One key of a service user, without its secret."),
    "UpdateAccessKey": (
        "Switch an access key on or off",
        "An inactive key gets no tokens, and its tokens stop working within three seconds.",
    ),
    "DeleteAccessKey": ("Delete an access key", "Its tokens stop working within three seconds."),
    "AddPermissionPolicyToServiceUser": ("Grant a policy to a service user", _GRANT),
    "RemovePermissionPolicyFromServiceUser": ("Take a policy from a service user", _REVOKE),
    "AddPermissionPolicyToSupportUsers": ("Grant a policy to support users", _GRANT),
    "RemovePermissionPolicyFromSupportUsers": ("Take a policy from support users", _REVOKE),
    "AddPermissionPolicyToUser": ("Grant a policy to a user", _GRANT),
    "RemovePermissionPolicyFromUser": ("Take a policy from a user", _REVOKE),
    "AddPermissionPolicyToUserGroup": ("Grant a policy to a group of users", _GRANT),
    "RemovePermissionPolicyFromUserGroup": ("Take a policy from a group of users", _REVOKE),
    "ListOrgUsers": ("List users", "One page of the people of the organization."),
    "GetMe": ("Retrieve who asks", "The user or service user of the token, and the organization."),
    "ListAllowedOperations": (
        "List what you may call",
        (
            "The ids of the operations that whoever asks may call, with the features of the organization."
            " A right to single items, or to a group of them, is not among them."
        ),
    ),
    "GetOrgUser": ("Retrieve a user", "One person of the organization."),
    "PutOrgUser": (
        "Change a user",
        "Sets the permissions of a person in this organization, and until when the person has access.",
    ),
    "ListAuditLog": (
        "List who did what",
        (
            "Newest first: changes of entities, what people did to bills, balances and closed months with"
            " amount and reason, grants of policies, and the runs that they asked for; without what you may not read. `peopleOnly` leaves out what meterlake"
            " did by itself. The changes of one entity, field by field, have an operation of their own."
        ),
    ),
    "ListUserSessions": ("List the sign-ins of a user", "Those that have not ended, newest first."),
    "EndUserSessions": (
        "Sign a user out in all browsers",
        (
            "No sign-in of the person that began before leads into this organization any more, nor does"
            " a token that came from one. Other organizations of the person notice nothing."
        ),
    ),
    "EndMySessions": (
        "Sign yourself out everywhere",
        (
            "All your sign-ins end, in every organization, with all tokens that came from them; this"
            " one, too."
        ),
    ),
    "ListPermissionPolicyPrincipals": (
        "List who has a policy",
        "Users, groups of users and service users to which it is granted; one page, newest first.",
    ),
    "GetOrgUserPermissions": (
        "List the policies of a user",
        "One page of the policies that are granted.",
    ),
    "GetOrgUserGroups": (
        "List the groups of a user",
        "One page of groups that have the user; with `inherited`, groups of these groups, too.",
    ),
    "AdminResendTempPass": (
        "Send an invitation again",
        "For people who have not signed in yet: another letter with another link.",
    ),
    "CreatePasswordLink": (
        "Let a user choose a new password",
        (
            "By a link that works once, for a day; those before it work no more. Where a mail server is set,"
            " a letter brings it to the person. Where none is, the answer has it, this once, unless the person is"
            " a user of other organizations, too, or may give policies while you may not: then it waits in the"
            " outbox of the server. Whoever follows it ends all sign-ins of the person. The old password works"
            " until then."
        ),
    ),
    "AddResourceToGroup": (
        "Put something into a group",
        "An entity of the group's type, or another group.",
    ),
    "RemoveResourceFromGroup": (
        "Take something out of a group",
        "What is not in the group is 404.",
    ),
    "ListResourceGroupsForId": ("List what a group contains", "One page of entities and groups."),
    "GetResourceGroupPermissions": (
        "List the policies of a group of users",
        "One page of policies.",
    ),
    "PutSupport": (
        "Grant access to the support",
        "Says until when people of the support may look into the organization, and what they may do.",
    ),
    # Accounts, contracts, balances.
    "ListAccountChildren": ("List the child accounts of an account", "One page, newest first."),
    "EndDateBillingEntitiesForAccount": ("End what an account has", _ENDS),
    "EndDateBillingEntitiesForContract": ("End what a contract has", _ENDS),
    "ReplaceAccountPlan": (
        "Move an account to another plan",
        (
            "Ends the account plan of the path and starts the one of the body at its start date, both in"
            " one step. The answer has both."
        ),
    ),
    "PostBalanceTransaction": (
        "Book money on a balance",
        "A positive amount comes in, a negative one leaves. Booked transactions stay.",
    ),
    # Bills.
    "ListBills": (
        "List bills",
        (
            "One page, newest first. Ends of dates are exclusive. `locked` false leaves out locked bills;"
            " true, or without it, all are listed. `billTotal` is shown if `includeBillTotal` is true."
        ),
    ),
    "GetAllBillsForAccount": ("List the bills of an account", "One page, newest first."),
    "GetAllBillsInBillingPeriod": (
        "List the bills of a period",
        "The path has the last day of the period, such as 2026-09-30, and the frequency.",
    ),
    "SearchBills": (
        "Search bills",
        (
            "Terms `<field><comparator><value>` are joined by `$`; comparators are `>`, `>=`, `:`, `<`,"
            " `<=`, `~` (begins with) and `*` (has within). Fields are accountId, locked, billDate, startDate, endDate,"
            " dueDate, billingFrequency, id, ids, createdBy, dtCreated, lastModifiedBy, accountCode,"
            " sequentialInvoiceNumber, externalInvoiceReference, purchaseOrderNumber, status, currency,"
            " billTotal and recalculationDue."
        ),
    ),
    "GetBill": ("Retrieve a bill", "One bill with its lines."),
    "VerifyBill": (
        "Verify a bill",
        (
            "Calculates the bill again from what it was made from, and compares every byte."
            " Whatever differs is named, with what is stored and what comes out. Nothing is stored."
        ),
    ),
    "DiffBill": (
        "Explain the difference of two versions of a bill",
        (
            "Applies what changed between two contents of the bill one after the other, and gives each"
            " cause its part: they add up to the whole. `to` is a version, or `now` for what the bill"
            " would be now. Without both, the last two contents are compared. Nothing is stored."
        ),
    ),
    "TotalBills": (
        "Add up bills",
        (
            "What all bills that a search finds come to, by currency, and how many of them are pending, approved"
            " and locked; `searchQuery` has the terms of SearchBills."
        ),
    ),
    "GetLedgerFile": (
        "Download the ledger",
        (
            "The ledger of balances and commitments as a file of beancount: every posting in double entry, as"
            " `meterlake check books --beancount` writes it."
        ),
    ),
    "SendBill": (
        "Send a bill by e-mail",
        (
            "The worker sends the PDF of an approved bill to the e-mail address of its account, or to `to`. A bill"
            " that was sent is sent again only with `again`. It needs a mail server in the settings."
        ),
    ),
    "PreviewBillLetter": (
        "Preview the e-mail of a bill",
        (
            "To whom it goes, and what it says: with the organization's `billLetterSubject` and `billLetterText`,"
            " or with those of the request. Nothing is sent or stored."
        ),
    ),
    "ListBillLetters": (
        "List the letters of a bill",
        (
            "When the bill went to whom by e-mail, who wanted that, and what became of it, the newest first; `to`"
            " is where a letter would go, `available` says whether a mail server is set."
        ),
    ),
    "ListBillVersions": (
        "List the versions of a bill",
        (
            "What the bill came to over time, the newest first, with who made each version and who replaced"
            " it. `DiffBill` compares two of them; an approval or a lock is no version of its own."
        ),
    ),
    "CompareBill": (
        "Compare a bill with another one",
        (
            "The bill beside the customer's one before it, or beside the one whose id is `with`: what each thing"
            " costs on both, the largest change first. `byQuantity` is the change of the quantity at the former"
            " average price, `byPrice` the rest."
        ),
    ),
    "GetBillDocument": (
        "Retrieve a bill as a document",
        (
            "The bill with its usage as people get it: `format` is pdf (unless it is given), html, or"
            " json for what templates are given. `usage` says how finely the appendix shows usage:"
            " day, week, month, total, none, or auto, which leaves the appendix out of long bills."
        ),
    ),
    "DownloadBillDocuments": (
        "Download the documents of bills",
        (
            "The PDFs of the bills of `billIds`, or of all bills of a `month` such as 2026-10, as one PDF or as"
            " a `zip`: at most 200. `meterlake bill document --month` writes more."
        ),
    ),
    "ExplainBill": (
        "Explain a bill",
        (
            "What the total follows from, number by number: lines, bands, units, quantities, the SQL of each"
            " quantity, and its first measurements with file and row. Each number names the rule by which it"
            " follows from its `children`. The bill is calculated again from what it pins; nothing is stored."
            " `newest` shows the newest measurements instead; `days` adds what each day alone comes to, in the"
            " days of the bill's time zone."
        ),
    ),
    "GetLatestBill": (
        "Retrieve the latest bill of an account",
        "The bill with the latest bill date; of several, the one that was made last.",
    ),
    "CheckBillApproval": (
        "Check an approval of bills",
        (
            "Which of the bills you may not approve, as the organization wants two persons (`twoPersonApproval`),"
            " and what is open about them, as long as they are not locked. Nothing is approved."
        ),
    ),
    "ApproveBills": (
        "Approve bills",
        (
            "Those of `billIds`, all or none; the query does not count then. Without `billIds`, those of"
            " the accounts and invoice dates of the query that wait for approval and are not locked."
        ),
    ),
    "ApproveAllBillsInBillingPeriod": (
        "Approve the bills of a period",
        "Locked bills are left as they are. The answer says how many bills were approved.",
    ),
    "UpdateBillStatus": (
        "Approve a bill, or take its approval back",
        "A locked bill, or one that the lock date closes, is refused with 409.",
    ),
    "LockBill": (
        "Lock a bill",
        "Only an APPROVED bill can be locked. It never changes again, and no lock is taken back.",
    ),
    "DeleteBill": (
        "Delete a bill",
        "For ever. Locked bills are refused with 409. Its sequential number is not given again.",
    ),
    "DownloadBillsCsv": (
        "Download bills as CSV at once",
        "The file itself; the same as behind the link of `download/csv/url`.",
    ),
    "CreateBillDocumentsJob": (
        "Have documents of many bills made",
        (
            "The worker makes one file of the documents of `billIds`, in this order, or of all bills of a `month`,"
            " by customer: at most 5,000. Ask for the job until it is COMPLETE."
        ),
    ),
    "GetBillDocumentsJob": (
        "Get a job of documents",
        (
            "`done` of its `bills` are made. A COMPLETE job has a `downloadUrl` until `dtExpires`, a day after its end."
        ),
    ),
    "DownloadBillsCsvUrl": (
        "Download bills as CSV",
        (
            "A row for each line, for at most 31 days and 5,000 bills, by bill date or by invoice date."
            f" {_LINK}"
        ),
    ),
    "ListLineItems": (
        "List lines of all bills",
        "One page: those of the newest bill first, each bill's in their order.",
    ),
    "ListBillLineItems": ("List the lines of a bill", "One page, in the order of the bill."),
    "GetBillLineItem": (
        "Retrieve a line of a bill",
        "Its id stays the same however often the bill is calculated.",
    ),
    "GetBillLineItemJsonUsage": (
        "Download the usage of a line",
        f"The line and up to 20,000 measurements of its service period. {_LINK}",
    ),
    "ListCreditLineItems": ("List the credits of a bill", "One page, newest first."),
    "PostCreditLineItem": ("Put a credit on a bill", _MEMO),
    "GetCreditLineItem": ("Retrieve a credit of a bill", "One line that lowers the bill."),
    "PutCreditLineItem": ("Change a credit of a bill", _MEMO),
    "DeleteCreditLineItem": ("Take a credit from a bill", _MEMO_GONE),
    "ListDebitLineItems": ("List the debits of a bill", "One page, newest first."),
    "PostDebitLineItem": ("Put a debit on a bill", _MEMO),
    "GetDebitLineItem": ("Retrieve a debit of a bill", "One line that raises the bill."),
    "PutDebitLineItem": ("Change a debit of a bill", _MEMO),
    "DeleteDebitLineItem": ("Take a debit from a bill", _MEMO_GONE),
    "ListBalanceTransactions": ("List the transactions of a balance", "One page, newest first."),
    "GetBalanceTransactionsSummary": (
        "Sum up the transactions of a balance",
        "What came in, what was used, and what is left.",
    ),
    "PreviewScheduledCharge": (
        "Preview the charges of a schedule",
        "What the schedule of the body would make. Nothing is stored.",
    ),
    "PreviewBalanceTransactionSchedule": (
        "Preview the transactions of a schedule",
        "What the schedule of the body would book. Nothing is stored.",
    ),
    # Measurements.
    "SubmitMeasurements": (
        "Submit measurements",
        (
            "Takes 1 to 1,000 measurements in under 512,000 bytes. They are on the disk when the answer"
            " comes, and are ingested a second or two later. A measurement with a `uid` counts once,"
            " however often it is sent. Unknown meters, missing fields and the like are found when they"
            " are ingested: see the rejected rows. 429 with `Retry-After` if too much waits already."
        ),
    ),
    "GetMeasurementsStatus": (
        "See what came in",
        (
            "How many rows came from all sources and what became of them, the rows that are rejected now"
            " by reason, how fresh each meter is, and the open alerts about measurements."
        ),
    ),
    "GetMeasurementsTemplate": (
        "Download a template of a file",
        (
            "A CSV file to begin with: its first line has the columns of the meter whose code `meter` is,"
            " its second one is an example that you replace."
        ),
    ),
    "ListSources": (
        "List sources",
        (
            "One page of receipts, the newest first: what became of each file and of each batch, one for"
            " each attempt. received = accepted + repeats + rejected. `source` is the beginning of a"
            " source's identity, or the id of a delivery or of a job. `name` is a whole name,"
            " `nameContains` a part of it, in capitals or not. `mended` are rejected rows that came in"
            " since, by a requeue; `retracted` says what backfills withdrew."
        ),
    ),
    "ListInboxes": (
        "List inboxes",
        "The prefixes of buckets that are watched, each with the 20 newest objects taken from it.",
    ),
    "AddInbox": (
        "Add an inbox, or change it",
        (
            "What comes below a prefix of a bucket, or into a folder, is ingested from now on. The URL"
            " of an inbox that is there already changes what becomes of its objects. A folder lies below"
            " one that the server allows; the server reads buckets with its own credentials."
        ),
    ),
    "RemoveInbox": (
        "Remove an inbox",
        "Nobody looks into it any more; its objects stay where they are, and what came in stays.",
    ),
    "CheckInbox": (
        "Check an inbox",
        (
            "Whether a bucket or a folder answers, before you add it or afterwards, and the first objects"
            " that lie there. Nothing is taken."
        ),
    ),
    "ListMappings": (
        "List mappings",
        (
            "The mappings that read files of other programs by their names, with who saved each. One that"
            " cannot be read has its `problem`."
        ),
    ),
    "SaveMapping": (
        "Save a mapping",
        (
            "Dropped, uploaded and bucket files whose names fit one of its patterns are read through it"
            " from now on. It takes the place of the mapping of that name, and has to fit the meters."
        ),
    ),
    "DeleteMapping": (
        "Delete a mapping",
        "Files of its names are read in meterlake's own format from now on. What came in stays.",
    ),
    "TryMapping": (
        "Try a mapping on a file",
        (
            "What would become of a file, or of its beginning, under a mapping that need not be saved:"
            " the numbers of all its rows, and the first 50 with their columns beside the measurements that"
            " they become, or beside the reasons why they would be rejected. `problems` says what of the"
            " mapping does not fit the meters. Nothing is kept."
        ),
    ),
    "ListRejectedRows": (
        "List rejected rows",
        (
            "One page of rows that were not accepted, each with its reason and its original text, in the"
            " order of their sources and rows, or by `sortBy`; rows without a meter are the last ones then."
        ),
    ),
    "GetRejectedRow": ("Retrieve a rejected row", "One row, and what became of it."),
    "RequeueRejectedRows": (
        "Give rejected rows in again",
        (
            "Those that the filters mean, as they are, or some as they were edited. No row counts"
            " twice. Withdrawn and dismissed rows come in only if you name them by their ids."
        ),
    ),
    "DismissRejectedRows": (
        "Dismiss rejected rows",
        (
            "Open rows that nobody is to wait for, with the reason: `status`, the review of bills and"
            " the report count them no more. `ReopenRejectedRows` takes it back."
        ),
    ),
    "ReopenRejectedRows": ("Reopen dismissed rows", "They wait for somebody as before."),
    "GetMeasurementReceipt": (
        "Find a measurement by its uid",
        "Where the measurement was first seen, and what came under the same uid later.",
    ),
    "GetValidationErrorDownloadUrl": (
        "Get the file of rejected rows of a source",
        f"The event `ingest.validation.failure` names the file. {_LINK}",
    ),
    "GenerateUploadUrl": (
        "Announce a file of measurements",
        (
            "Makes a job and answers with the URL and the headers of the PUT that sends the file. The PUT"
            " must begin within a minute. JSON, NDJSON, CSV and Parquet are read, plain or compressed."
        ),
    ),
    "ListJobs": ("List upload jobs", "One page, newest first."),
    "GetUploadJobResponse": (
        "Retrieve an upload job",
        "Its status, and how many rows were taken, repeated and rejected, by reason.",
    ),
    "GetJobOriginalFileDownloadUrl": ("Get the file of an upload job", _LINK),
    # Backfills.
    "StartBackfill": (
        "Start a backfill",
        (
            "Says what is to be corrected; the worker stages it, and nothing changes yet. With `id` and"
            " nothing else, a backfill is staged once more."
        ),
    ),
    "ListBackfills": ("List backfills", "One page, newest first."),
    "GetBackfill": (
        "Retrieve a backfill",
        "Where it stands, its counts, and what was done with it.",
    ),
    "GetBackfillDifference": (
        "Show what a backfill changes",
        "Quantities and bills before and after, up to 1,000 of each. 409 before it is staged.",
    ),
    "GetBackfillMeasurements": (
        "Show the measurements that a backfill changes",
        (
            "The first 1,000 by time: what goes, what comes, before and after, and how many of each"
            " meter. They stay to be seen after the backfill is applied or reverted."
        ),
    ),
    "ApplyBackfill": ("Apply a backfill", "Makes the change, in one commit. The worker does it."),
    "DropBackfill": ("Drop a backfill", "Throws away what is staged, at once; its history stays."),
    "RevertBackfill": (
        "Revert a backfill",
        "Undoes a backfill that is applied. The worker does it.",
    ),
    "LoadSample": (
        "Load the sample",
        (
            "Gives an organization that has nothing yet the catalog, customers and usage of an invented"
            " month. The worker ingests the files. 409 if the organization has meters, products, plan"
            " templates or accounts of its own."
        ),
    ),
    "GetRevenue": (
        "Get revenue",
        (
            "What bills charge for by month, customer or product, drafts and approved ones, credits and debits"
            " included; a bill counts for the month of its last day. What balances and commitments pay"
            " takes nothing away, and what is charged ahead for them is no revenue yet; `billedAmount`"
            " has both, and is what the bills come to. Amounts of several currencies are never"
            " added; `reportingCurrency` converts them by the organization's rates, and `missingRates` names"
            " the currencies without one. Months are such as 2026-10, `last` or `current`."
        ),
    ),
    "GetMargins": (
        "Get margins",
        (
            "Revenue of a month less what measures of category COST come to, for each product or customer"
            " and each currency of bills. The costs of a product are those of its own meters, for the"
            " customers with bills in that currency; of a child for its parent, if that has the bill."
            " Costs of meters without a product stand with revenue without one, and costs without a bill"
            " in `unbilled`. Nothing is subtracted across currencies; `reportingCurrency` converts both"
            " by the organization's rates."
        ),
    ),
    # Runs.
    "ListRuns": (
        "List runs of all kinds",
        (
            "The jobs of all kinds, newest first: files, bills, statements, closings, exports, backfills,"
            " and what is sent to other systems. Kinds that you may not read in full are left out."
        ),
    ),
    "GetRun": (
        "Retrieve a run of any kind",
        "How far it is, how it ended, and what you can do about it.",
    ),
    "CancelRun": (
        "Cancel a run",
        (
            "A bill job, a statement or an export that waits ends at once; one that runs stops soon. A"
            " step of a closing is cancelled while it waits. 409 if it has ended, or if runs of its"
            " kind end by themselves."
        ),
    ),
    "RetryRun": (
        "Run again what failed",
        (
            "What failed or was cancelled is done once more: by the same run, or by a new one, which"
            " is the answer. A file is sent again instead: 409."
        ),
    ),
    # Usage.
    "PreviewPriceChange": (
        "Preview a price with other bands",
        (
            "What bills of months, of some accounts or of all, would come to if the price had had the bands"
            " since it began: by month and currency, with each line type that differs. Nothing is"
            " stored. With `mustPropose` you may only propose the price, as the organization wants two"
            " persons. Permission: `config:retrieve` on every `bill`, too."
        ),
    ),
    "ReplacePricing": (
        "Replace a price by one with other bands",
        (
            "The price ends at `startDate`, and one with the bands begins then; both or none. A price"
            " that begins at that instant gets the bands itself. `version` is that of the price."
            " Permission: `config:create` on `pricing`, too. 403 for a person if the organization wants two"
            " persons (`twoPersonApproval`) and customers have the plan: propose the price."
        ),
    ),
    "GetAccountSpend": (
        "What an account has spent so far",
        (
            "The bills of the account's open periods, calculated with the usage and prices of now;"
            " nothing is stored. `failures` says why one cannot be made."
        ),
    ),
    "CreateCustomerLink": (
        "Make a link to a customer's page",
        (
            "Whoever has the link sees this customer's usage, spend, balances and approved bills until"
            " `dtExpiry`, a year ahead at most, and nothing else. The answer has `token` and `url`, which"
            " nobody is shown again. Pages of `allowedOrigins`, such as https://portal.example.com, may"
            " show it in a frame."
        ),
    ),
    "RevokeCustomerLink": (
        "Revoke a link to a customer's page",
        "It never works again; make a new one instead.",
    ),
    "GetCustomerPage": (
        "Get the page of a customer",
        "Whose page it is, and what is left of the balances. The token of the link is all it takes.",
    ),
    "GetCustomerPageUsage": (
        "Get what a customer used by day",
        "Of a month such as 2026-10, as GetAccountUsage has it; without `month`, of the present one.",
    ),
    "GetCustomerPageSpend": (
        "Get what a customer has spent so far",
        "What the bills of the customer's open periods would come to now.",
    ),
    "ListCustomerPageBills": (
        "List a customer's bills",
        "The approved ones, the newest first, without their lines.",
    ),
    "GetCustomerPageBill": (
        "Get a customer's bill",
        "An approved bill with its lines and price bands; 404 for one of anybody else.",
    ),
    "GetCustomerPageDocument": (
        "Get the document of a customer's bill",
        "The bill as PDF; 404 for one of anybody else.",
    ),
    "GetAccountUsage": (
        "What an account used by day",
        (
            "The quantities of a month and of each of its days, by the aggregations that the account's"
            " plans price: those of one field. Days are the organization's. A day without measurements"
            " is left out. `month` is such as 2026-10; without it, the present one."
        ),
    ),
    "PostUsageDataQuery": (
        "Query usage",
        (
            "Measurements of a time as they were sent, or fields of them aggregated by account, field and"
            " time. `limit` bounds the rows."
        ),
    ),
    "PostUsageDataQuerySql": (
        "Show the SQL of a usage query",
        (
            "What the question asks of the lake, one statement for each meter that has measurements,"
            " with its values written out. You run it with `meterlake sql`. A sum of more than 38 digits"
            " fails there, and not in the answer of the question."
        ),
    ),
    "PostUsageDataQueryExplain": (
        "Explain a number of a usage query",
        (
            "One number of the answer to a question with one aggregation: you send the question with a"
            " row of its answer as `group`. You get that row, the SQL that gives it alone, and a page of"
            " the measurements that it is made of, the oldest first, each with its file and the row in"
            " it. The numbers are those of now: what came since the answer counts."
        ),
    ),
    "PostUsageDataQueryDownloadCsv": (
        "Download the rows of a usage query as CSV",
        _DOWNLOAD,
    ),
    "PostUsageDataQueryDownloadJson": (
        "Download the rows of a usage query as JSON",
        _DOWNLOAD,
    ),
    "PostUsageDataQueryDownloadParquet": (
        "Download the rows of a usage query as Parquet",
        f"{_DOWNLOAD} Numbers are exact decimals, instants are in UTC.",
    ),
    "ExplainQuantity": (
        "Explain a quantity",
        (
            "The quantities of an account and an aggregation, by their codes, in a period such as 2026-10:"
            " the statement that gave each, and the measurements behind it with file and row; of a compound"
            " aggregation, its parts. `rows` bounds the measurements of each. `now` is what the quantity"
            " would be if it were calculated now; without it, it would be the same."
        ),
    ),
    "CalculateQuantities": (
        "Calculate the quantities of a period",
        (
            "Has the worker aggregate the measurements of a period of all accounts, and keep the quantities"
            " unless those that are kept are the same. No bill changes. `period` is such as 2026-10, or the"
            " first day of a DAILY or WEEKLY one. If the same waits or runs already, it is that."
        ),
    ),
    "GetQuantitiesJob": (
        "Get a calculation of quantities",
        "How far it is and, when it has ended, how many quantities there are and whether they changed.",
    ),
    "QueryUsageSavedQuery": ("Run a saved query", "The rows that the saved query means now."),
    "PostQueryUsageData": ("Explore usage", "Usage of a time by account, meter and field."),
    "PostQueryMeterDimensions": (
        "List the text fields of meters",
        "The fields that usage can be divided by.",
    ),
    "PostQueryDimensionValues": (
        "List the values of a text field",
        "Values that measurements of a time have.",
    ),
    "PostQueryMeters": ("List meters with usage", "The meters that have measurements in a time."),
    "PostQueryBillData": (
        "Explore lines of bills",
        "Lines of bills of a time, with their measures.",
    ),
    "PostQueryCommitments": (
        "Explore commitments",
        "Commitments of a time, and what was used of them.",
    ),
    "PostQueryCommitmentLineItems": (
        "Explore lines of bills of commitments",
        "What commitments paid for.",
    ),
    "PostQueryRemainingCommitments": (
        "Explore what is left of commitments",
        "Commitments with a rest.",
    ),
    "PostQueryObligations": ("Explore obligations", "What is still to be paid, by month."),
    "PostQueryUsageDataDownloadCsv": ("Download usage as CSV", _DOWNLOAD),
    "PostQueryUsageDataDownloadJson": ("Download usage as JSON", _DOWNLOAD),
    "PostQueryBillDataDownloadCsv": ("Download lines of bills as CSV", _DOWNLOAD),
    "PostQueryBillDataDownloadJson": ("Download lines of bills as JSON", _DOWNLOAD),
    "PostQueryCommitmentsDownloadCsv": ("Download commitments as CSV", _DOWNLOAD),
    "PostQueryCommitmentsDownloadJson": ("Download commitments as JSON", _DOWNLOAD),
    "PostQueryObligationsDownloadCsv": ("Download obligations as CSV", _DOWNLOAD),
    "PostQueryObligationsDownloadJson": ("Download obligations as JSON", _DOWNLOAD),
    "ListExploredBillAccounts": ("List accounts that have bills", "Ids and names, to choose from."),
    "ListExploredBillProducts": (
        "List products that stand on bills",
        "Ids and names, to choose from.",
    ),
    "ListExploredCommitmentAccounts": ("List accounts that have commitments", "Ids and names."),
    # Data exports.
    "TriggerDataExport": (
        "Export data once",
        "Makes a job and answers with its id; the worker runs it. Retrieve the job to see how far it is.",
    ),
    "listJobStatuses": ("List export jobs", "One page, newest first."),
    "GetJob": ("Retrieve an export job", "Its status, its progress, and why it failed if it did."),
    "GenerateDataExportFileDownloadUrl": ("Get the file of an export job", _LINK),
    "GetDataExportManifest": (
        "Read the manifest of an export job",
        "Each file with its rows, size and SHA-256, as the manifest says where it lies.",
    ),
    "VerifyDataExport": (
        "Verify the files of an export job",
        "Reads each file where it lies, and compares its size, checksum, rows and sums. At most 1 GB.",
    ),
    "GetDataExportFileUrl": ("Get one file of an export job", _LINK),
    "CheckExportDestination": (
        "Check an export destination",
        "Writes a small object and deletes it again. The answer lists the steps and what failed.",
    ),
    "CancelDataExportJob": (
        "Cancel an export job",
        "A job that runs stops soon and leaves nothing behind.",
    ),
    "RetryDataExportJob": (
        "Run a failed export job again",
        "With the configuration of its time, to where its destinations are by now.",
    ),
    # Events and notifications.
    "ListEvents": ("List events", "One page of what happened, newest first."),
    "ListEventTypes": (
        "List the types of events",
        "Names such as `configuration.account.created`.",
    ),
    "ListEventFields": (
        "List the fields of a type of events",
        "Names and types, for calculations.",
    ),
    "GetEvent": ("Retrieve an event", "One event with the fields that it tells of."),
    "MarkEventActioned": ("Mark an event as dealt with", "Notes when somebody has seen to it."),
    "EvaluateCalculation": (
        "Try a calculation",
        "Evaluates a calculation with the fields of an event.",
    ),
    # Integrations.
    "ActivateWebhookDestination": (
        "Switch a webhook on or off",
        "By the query parameter `active`.",
    ),
    "PingWebhook": (
        "Send a test to a webhook",
        (
            "A signed delivery of the type `webhook.ping`. The answer is its run, which waits for the"
            " worker."
        ),
    ),
    "ReplayWebhook": (
        "Send runs to a webhook once more",
        (
            "All that were made since an instant and have ended, or those of them that ended with one"
            " status. Each is a new run with an id of its own."
        ),
    ),
    "ReplayIntegrationRun": (
        "Send a run once more",
        "A new run sends what the old one sent, which must have ended.",
    ),
    "GetUsageReport": (
        "List what was reported to marketplaces",
        "One page of bills: of each, the cents that the marketplace took, by dimension and hour.",
    ),
    "GetAvailableConfig": ("List what can be configured", _CHOICES),
    "GetAvailableSystems": ("List the systems that can be connected", _CHOICES),
    "GetAvailableAuthForSystemAndEntityType": ("List the ways to sign in to a system", _CHOICES),
    "GetAvailableSystemEntities": ("List the entities of a system", _CHOICES),
    "GetIntegrationConfigForType": ("List the integrations of a type of entities", "One page."),
    "GetConfigOptionValues": ("List the values of an option", _CHOICES),
    "EnableIntegrationConfig": (
        "Enable an integration",
        "Lets an integration that was disabled run again.",
    ),
    "DisableIntegrationConfig": (
        "Disable an integration",
        "Nothing more is sent until it is enabled; runs whose turn comes are DISABLED.",
    ),
    "ListIntegrationRunsByDestinationId": ("List the runs to a destination", _RUNS),
    "GetIntegrationRunLogs": (
        "Retrieve the log of a run",
        "What was sent and answered, try by try and without secrets: JSON in Base64.",
    ),
    "GetIntegrationRunLatestForIds": (
        "List the latest runs of entities",
        "One page: of each entity of `ids`, or of all, the newest run.",
    ),
    "GetIntegrationRunLatest": (
        "Retrieve the latest run of an entity",
        "The newest one, whatever became of it; 404 if there is none.",
    ),
    "ListIntegrationConfigRuns": (
        "List the runs of an integration",
        "What one integration has handed over, newest first, also after it was deleted.",
    ),
    "ListIntegrationRuns": (
        "List the runs of an entity",
        f"{_RUNS} With `notifications`, what was told of it to webhooks, too.",
    ),
    "GetIntegrationRun": ("Retrieve a run", "Where it stands, and what it became there."),
    "GetExternalMappingConfiguration": ("List what can be mapped", _CHOICES),
    "GetExternalMappingOptionsForDestination": ("List what an entity can be mapped to", _CHOICES),
    "GetExternalMappingOptionsForDestinationForCredentialsId": (
        "List what an entity can be mapped to, with credentials",
        _CHOICES,
    ),
    "ListExternalMappingsForM3terEntity": ("List the mappings of an entity", "One page."),
    "ListExternalMappingsForExternalSystemAndEntity": (
        "List the mappings of something in another system",
        "One page.",
    ),
    # Lookup tables.
    "UpdateLookupTableRevisionStatus": (
        "Publish or archive a revision",
        "One revision of a table is published at a time: calculations read that one.",
    ),
    "GetLookupTableRevisionData": ("List the items of a revision", "Up to `limit` items."),
    "PutLookupTableRevisionData": (
        "Write items into a revision",
        f"New items are added, known keys replaced. {_DRAFT}",
    ),
    "DeleteLookupTableRevisionData": ("Delete all items of a revision", _DRAFT),
    "GetLookupTableRevisionArchivedDataUrl": ("Get the items of an archived revision", _LINK),
    "CopyLookupTableRevisionData": (
        "Copy the items of a revision",
        "Into the draft that the body names, or into a new revision.",
    ),
    "GenerateLookupTableDataUploadUrl": (
        "Announce a file of items",
        "Makes a job and answers with the URL and the headers of the PUT that sends the file.",
    ),
    "ListLookupTableRevisionDataJobs": (
        "List the jobs of a revision",
        "One page of uploads, downloads and copies.",
    ),
    "TriggerLookupTableRevisionDataDownloadJob": (
        "Write the items of a revision to a file",
        "Makes a job. When it has succeeded, retrieving it gives a link to the file.",
    ),
    "GetLookupTableRevisionDataJobResponse": (
        "Retrieve a job of a revision",
        "Its status and its file.",
    ),
    "DeleteLookupTableRevisionDataJobResponse": ("Delete a job of a revision", "The items stay."),
    "GetLookupTableRevisionDataEntry": ("Retrieve an item", "By its key."),
    "PutLookupTableRevisionDataEntry": ("Write an item", f"A known key is replaced. {_DRAFT}"),
    "DeleteLookupTableRevisionDataEntry": (
        "Delete an item",
        f"The body may name its version. {_DRAFT}",
    ),
}
