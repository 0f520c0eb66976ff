"""A machine of the soak that is cut off hears nothing, and nothing for it goes anywhere else."""

import subprocess
import sys

import pytest

from tests.soak.machines import namespaces, namespaces_missing

LISTEN = "import socket; s = socket.create_server(('0.0.0.0', 9)); print(1, flush=True); s.accept()"


def test_a_pulled_cable_swallows_what_is_sent_and_no_other_road_is_taken():
    reason = namespaces_missing()
    if reason:
        pytest.skip(reason)
    with namespaces(1) as [network]:
        listen = [*network.command, sys.executable, "-c", LISTEN]
        with subprocess.Popen(listen, stdout=subprocess.PIPE) as server:
            assert server.stdout.read(1) == b"1"
            network.set_cable(plugged=False)
            assert road_to(network.host) == {network._switch}
            assert not reaches(network.host)
            network.set_cable(plugged=True)
            assert reaches(network.host)
            server.wait(10)
        subprocess.run(["ip", "link", "set", network._switch, "down"], check=True)
        assert road_to(network.host) == set()


def road_to(host):
    """The devices by which packets for an address leave."""
    found = subprocess.run(
        ["ip", "route", "get", host], check=False, capture_output=True, text=True
    ).stdout.split()
    return {found[at + 1] for at, word in enumerate(found) if word == "dev"} - {"lo"}


def reaches(host):
    """Whether somebody there takes a connection within two seconds."""
    program = f"import socket; socket.create_connection(({host!r}, 9), timeout=2)"
    return (
        subprocess.run([sys.executable, "-c", program], check=False, capture_output=True).returncode
        == 0
    )
