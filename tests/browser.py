"""A page in a browser, without a window."""

import json
import re
import subprocess
from contextlib import contextmanager
from itertools import count
from shutil import which

import httpx
import pytest
from websockets.sync.client import connect


@contextmanager
def opened(page, profile):
    """Evaluates expressions in a page that a browser shows."""
    browser = which("chromium")
    if browser is None:
        pytest.skip("needs chromium in PATH")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--no-proxy-server"]
    command = [browser, *options, "--window-size=1200,800", "--remote-debugging-port=0"]
    with subprocess.Popen(
        [*command, f"--user-data-dir={profile}", page], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            port = next(
                found[1]
                for line in process.stderr
                if (found := re.search(r"DevTools listening on ws://[\d.]+:(\d+)/", line))
            )
            pages = httpx.get(f"http://127.0.0.1:{port}/json/list").json()
            [debugger] = [each for each in pages if each["type"] == "page"]
            numbers = count(1)
            with connect(debugger["webSocketDebuggerUrl"], max_size=None) as socket:

                def evaluate(expression):
                    number = next(numbers)
                    call = {"expression": expression, "returnByValue": True}
                    method = {"id": number, "method": "Runtime.evaluate", "params": call}
                    socket.send(json.dumps(method))
                    while (answer := json.loads(socket.recv())).get("id") != number:
                        pass
                    return answer["result"]["result"].get("value")

                yield evaluate
        finally:
            process.terminate()
