# SPDX-License-Identifier: Apache-2.0
"""The codecs' bench prints its lines: one a codec, and encode and decode beside each peer."""

from tests.measure import bench_codecs


def test_a_line_a_codec():
    found = bench_codecs.rows(elements=20_000, repeats=1)
    assert [row.figure.split()[1].rstrip(",") for row in found] == list(bench_codecs.CODECS)
    assert all("MB/s" in row.measured for row in found)


def test_encode_and_decode_beside_each_peer():
    found = list(bench_codecs.peer_rows(elements=4 * 64 * 64, repeats=1))
    names = [" ".join(row.figure.split(",")[0].split()) for row in found]
    assert names == ["demo encode", "demo decode", "sparse encode", "sparse decode"]
    assert all(" x as fast, " in row.measured and row.peer.startswith("published") for row in found)
