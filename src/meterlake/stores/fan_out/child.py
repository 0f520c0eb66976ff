"""A process that runs tasks of a fan-out, one after the other, until the one that started it ends."""

from queue import SimpleQueue

from meterlake.settings import Settings
from meterlake.stores import open_stores
from meterlake.stores.fan_out.processes import decode, encode
from meterlake.stores.fan_out.tasks import run_task
from meterlake.stores.processes import answers, orders
from meterlake.stores.unneeded_modules import without_pandas


def main() -> None:
    """Run the tasks that come; the home is told by the environment."""
    written = answers()
    waiting: SimpleQueue[bytes] = SimpleQueue()
    orders(waiting.put)
    while True:
        task = decode(waiting.get())
        try:
            with open_stores(Settings()) as stores:
                answer = run_task(stores, task)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is of one task
            answer = None, error
        written.write(encode(answer) + b"\n")


if __name__ == "__main__":
    with without_pandas():
        main()
