"""The program in docs/api.md does what it says, from its first line to its last."""

import re
from pathlib import Path

DOCUMENT = Path(__file__).parents[3] / "docs" / "api.md"


def test_the_program_of_the_document_runs(server):
    # What has a mark is a program of its own: tests/integration/api/test_api_page.py runs it.
    text = re.sub(
        r"<!-- runs: \w+ -->\n```python\n.*?```", "", DOCUMENT.read_text(), flags=re.DOTALL
    )
    program = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    own = {
        'base_url="http://127.0.0.1:8000"': f'base_url="{server.url}"',
        'api_key="..."': f'api_key="{server.key}"',
        'api_secret="..."': f'api_secret="{server.secret}"',
        'org_id="..."': f'org_id="{server.org_id}"',
    }
    for given, needed in own.items():
        assert given in program
        program = program.replace(given, needed)

    exec(program, {})

    with server.sdk() as client:
        assert [account.code for account in client.accounts.list()] == ["halvorsen"]
