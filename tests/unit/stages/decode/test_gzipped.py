import gzip
import io
import os
import random
import subprocess
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.stages.decode import gzipped as module
from meterlake.stages.decode.gzipped import GzipStream


def compress(chunks, threads):
    file = io.BytesIO()
    with GzipStream(file, threads) as stream:
        for each in chunks:
            stream.write(each)
    return file.getvalue()


@given(st.lists(st.binary(max_size=300), max_size=30), st.integers(1, 3), st.integers(1, 400))
def test_the_result_depends_on_nothing_but_the_bytes(chunks, threads, block):
    whole = b"".join(chunks)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "BLOCK_BYTES", block)
        compressed = compress(chunks, threads)

        assert gzip.decompress(compressed) == whole
        assert compressed == compress([whole], 1)


def test_it_is_one_member_without_a_time():
    content = random.Random(1).randbytes(3 << 20) + bytes(1 << 20)
    compressed = compress([content], 2)
    reader = zlib.decompressobj(wbits=31)

    assert reader.decompress(compressed) == content
    assert reader.eof
    assert reader.unused_data == b""
    assert compressed[4:8] == bytes(4)


def test_gzip_itself_reads_it(tmp_path):
    content = os.urandom(100_000) * 30
    (tmp_path / "x.gz").write_bytes(compress([content], 2))

    done = subprocess.run(["gzip", "-dc", tmp_path / "x.gz"], capture_output=True, check=True)
    assert done.stdout == content


def test_an_error_of_the_source_ends_it():
    def source():
        yield b"x"
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        compress(source(), 2)
