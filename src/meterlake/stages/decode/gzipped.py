"""Bytes to gzip on several cores, the same bytes every time.

Blocks of a fixed size are compressed apart and joined to one stream of one member, as `pigz` does,
so the result does not depend on the number of threads or on how the input arrives.
"""

import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

BLOCK_BYTES: Final = 1 << 20
# Three times as fast as the usual 6, for files that are an eighth larger.
LEVEL: Final = 1

# RFC 1952: deflate, no name, time 0, made fast, on an unknown system.
_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
# An empty last block of deflate.
_END: Final = b"\x03\x00"
_RAW: Final = -zlib.MAX_WBITS


def compress(chunks: Iterable[bytes | memoryview], threads: int) -> Iterator[bytes]:
    """Compress a stream; at most `threads` + 1 blocks are in memory.

    Args:
        chunks: The stream in pieces of any size.
        threads: How many threads compress (zlib works without the interpreter's lock).
    """
    checksum, length = 0, 0
    running: deque[Future[bytes]] = deque()
    yield _HEADER
    with ThreadPoolExecutor(threads) as pool:
        for block in blocks(chunks):
            checksum, length = zlib.crc32(block, checksum), length + len(block)
            running.append(pool.submit(_deflate, block))
            if len(running) > threads:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    yield _END + checksum.to_bytes(4, "little") + (length & 0xFFFFFFFF).to_bytes(4, "little")


def blocks(chunks: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """The same bytes in blocks of one size; only the last one may be shorter."""
    waiting = bytearray()
    for chunk in chunks:
        waiting += chunk
        while len(waiting) >= BLOCK_BYTES:
            yield bytes(memoryview(waiting)[:BLOCK_BYTES])
            del waiting[:BLOCK_BYTES]
    if waiting:
        yield bytes(waiting)


def _deflate(block: bytes) -> bytes:
    stream = zlib.compressobj(LEVEL, zlib.DEFLATED, _RAW)
    return stream.compress(block) + stream.flush(zlib.Z_SYNC_FLUSH)
