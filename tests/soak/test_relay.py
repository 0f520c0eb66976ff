"""The relay of the soak does to connections what it is told."""

import socket
import threading
from contextlib import suppress

import pytest

from meterlake.stores.processes import free_port
from tests.soak.relay import relay


@pytest.fixture
def echo():
    """A server that says what it hears; its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=repeat, args=[connection], daemon=True).start()

        def repeat(connection):
            with connection, suppress(OSError):
                while data := connection.recv(100):
                    connection.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def call(connection, text=b"x"):
    connection.sendall(text)
    return connection.recv(100)


def call_once(address):
    with socket.create_connection(address, timeout=5) as connection:
        return call(connection)


def test_connections_are_reset_hang_are_slow_and_pass_again(echo):
    address = ("127.0.0.1", free_port())
    with relay() as process:
        process.open(address, echo)
        with socket.create_connection(address, timeout=5) as connection:
            assert call(connection) == b"x"
            process.set(address, "silent")
            connection.settimeout(0.3)
            with pytest.raises(TimeoutError):
                call(connection, b"late")
            process.set(address, "slow")
            connection.settimeout(5)
            assert connection.recv(100) == b"late"
            process.set(address, "deaf")
            connection.settimeout(0.3)
            with pytest.raises(TimeoutError):
                call(connection, b"heard")
            process.set(address, "cut")
            with pytest.raises(ConnectionResetError):
                call(connection)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            call_once(address)
        process.set(address, "open")
        assert call_once(address) == b"x"


def test_a_server_that_is_not_there_is_a_reset():
    address = ("127.0.0.1", free_port())
    with relay() as process:
        process.open(address, ("127.0.0.1", free_port()))
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            call_once(address)
