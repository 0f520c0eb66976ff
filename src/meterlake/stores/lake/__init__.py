"""The lake of an organization: its tables, ledger, known uids, quantities and rejected rows."""
