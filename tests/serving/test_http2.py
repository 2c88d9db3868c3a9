"""Header compression and frames of the gRPC door: examples of RFC 7541, limits, clients that are not ours."""

from __future__ import annotations

import json
import shutil
import subprocess

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proreus.serving.protos import scheduler_pb2 as scheduler
from proreus.serving.server.http2 import frames
from proreus.serving.server.http2.frames import ConnectionFault, ErrorCode
from proreus.serving.server.http2.hpack import LARGEST_LIST, MOST_HEADERS, Decoder, literal
from proreus.serving.server.http2.huffman import decoded, encoded
from tests.serving.door_cases import Doors


def test_huffman_codes_of_the_rfc() -> None:
    for text, code in (
        (b"www.example.com", "f1e3c2e5f23a6ba0ab90f4ff"),
        (b"no-cache", "a8eb10649cbf"),
        (b"custom-value", "25a849e95bb8e8b4bf"),
        (b"Mon, 21 Oct 2013 20:13:21 GMT", "d07abe941054d444a8200595040b8166e082a62d1bff"),
    ):
        assert encoded(text).hex() == code
        assert decoded(bytes.fromhex(code)) == text
    assert decoded(b"\xff\xff\xff\xff") is None  # the end of a string inside of one
    assert decoded(b"\x00") is None  # padding that is not of ones


@given(st.binary(max_size=200))
def test_every_string_comes_back(text: bytes) -> None:
    assert decoded(encoded(text)) == text
    assert Decoder().headers(literal(b"x", text)) == [(b"x", text)]


NAMES = st.sampled_from([b":path", b":method", b"te", b"grpc-timeout", b"user-agent", b"x-more"])
HEADERS = st.lists(st.tuples(NAMES, st.binary(max_size=40)), max_size=8)


@given(st.lists(st.tuples(HEADERS, st.booleans(), st.sampled_from([None, 0, 100, 4_096])), max_size=12))
def test_what_the_library_encodes_for_a_connection_is_decoded(
    requests: list[tuple[list[tuple[bytes, bytes]], bool, int | None]],
) -> None:
    """Another implementation judges: its table grows, shrinks and is emptied from block to block."""
    encoder, decoder = hpack.Encoder(), Decoder()
    for headers, huffman, size in requests:
        if size is not None:
            encoder.header_table_size = size
        assert decoder.headers(encoder.encode(headers, huffman=huffman)) == headers


@given(st.binary(max_size=60))
def test_what_we_take_for_headers_the_library_takes_too(block: bytes) -> None:
    """We refuse more: numbers beyond any block, sizes of the table among headers."""
    try:
        headers = Decoder().headers(block)
    except ConnectionFault:
        return
    assert [tuple(header) for header in hpack.Decoder().decode(block, raw=True)] == headers


def test_a_table_is_shared_by_requests_of_a_connection() -> None:
    """RFC 7541, C.4: three requests, with Huffman codes and a dynamic table."""
    decoder = Decoder()
    common = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/")]
    authority = (b":authority", b"www.example.com")
    assert decoder.headers(bytes.fromhex("828684418cf1e3c2e5f23a6ba0ab90f4ff")) == [*common, authority]
    changes = decoder.changes
    cached = (b"cache-control", b"no-cache")
    assert decoder.headers(bytes.fromhex("828684be5886a8eb10649cbf")) == [*common, authority, cached]
    assert decoder.changes > changes
    third = decoder.headers(bytes.fromhex("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf"))
    assert third[1:] == [
        (b":scheme", b"https"),
        (b":path", b"/index.html"),
        authority,
        (b"custom-key", b"custom-value"),
    ]


def test_entries_are_evicted_by_size_and_a_size_of_nothing_forgets_all() -> None:
    decoder = Decoder()
    long = b"v" * 3_000
    decoder.headers(b"\x40\x01a\x7f" + _rest(len(long)) + long)
    decoder.headers(b"\x40\x01b\x7f" + _rest(len(long)) + long)  # the first one has to go
    assert decoder.headers(b"\xbe") == [(b"b", long)]
    with pytest.raises(ConnectionFault):
        decoder.headers(b"\xbf")
    decoder.headers(b"\x20")
    with pytest.raises(ConnectionFault):
        decoder.headers(b"\xbe")


def _rest(size: int) -> bytes:
    """A length above 127 behind its first byte."""
    size -= 127
    return bytes((size & 0x7F | 0x80, size >> 7))


@pytest.mark.parametrize(
    ("block", "code"),
    [
        (b"\x80", ErrorCode.COMPRESSION_ERROR),  # entry 0
        (b"\xff\xff\xff\xff\xff\xff\xff", ErrorCode.COMPRESSION_ERROR),  # a number without end
        (b"\x3f\xe2\x1f", ErrorCode.COMPRESSION_ERROR),  # a table of 4,097 bytes
        (b"\x00\x05ab", ErrorCode.COMPRESSION_ERROR),
        (b"\x00", ErrorCode.COMPRESSION_ERROR),
        (b"\x00\x81\xff\x01x", ErrorCode.COMPRESSION_ERROR),
        (b"\x82" * (MOST_HEADERS + 1), ErrorCode.ENHANCE_YOUR_CALM),
    ],
)
def test_blocks_that_are_none_end_the_connection(block: bytes, code: ErrorCode) -> None:
    with pytest.raises(ConnectionFault) as caught:
        Decoder().headers(block)
    assert caught.value.code is code


def test_few_bytes_do_not_become_many() -> None:
    """Entries of the table, named again and again (CVE-2016-6581)."""
    decoder = Decoder()
    long = b"v" * 3_900
    decoder.headers(b"\x40\x01a\x7f" + _rest(len(long)) + long)
    with pytest.raises(ConnectionFault) as caught:
        decoder.headers(b"\xbe" * (LARGEST_LIST // 3_900 + 1))
    assert caught.value.code is ErrorCode.ENHANCE_YOUR_CALM


@given(st.binary(max_size=64))
def test_any_bytes_are_headers_or_a_fault(block: bytes) -> None:
    try:
        Decoder().headers(block)
    except ConnectionFault as fault:
        assert fault.code in ErrorCode


def test_padding_is_taken_off_and_never_more_than_there_is() -> None:
    assert frames.without_padding(frames.PADDED, b"\x02abc\x00\x00") == b"abc"
    assert frames.without_padding(0, b"\x02abc") == b"\x02abc"
    for payload in (b"", b"\x01", b"\x05abc"):
        with pytest.raises(ConnectionFault):
            frames.without_padding(frames.PADDED, payload)


@pytest.mark.skipif(shutil.which("curl") is None, reason="asks by curl, which is not installed")
def test_a_client_of_nghttp2_is_answered(doors: Doors) -> None:
    message = scheduler.StateRequest(state=[0.5] * 6).SerializeToString()
    done = subprocess.run(
        [
            *("curl", "-sS", "--http2-prior-knowledge", "-H", "content-type: application/grpc"),
            *("-H", "te: trailers", "--data-binary", "@-", "-o", "-", "-w", "%{http_code}"),
            f"http://{doors.address}/scheduler.Scheduler/Predict",
        ],
        input=b"\x00" + len(message).to_bytes(4, "big") + message,
        capture_output=True,
        check=True,
        timeout=60,
    )
    answer, status = done.stdout[:-3], done.stdout[-3:]
    assert status == b"200", done
    assert 0 <= scheduler.ActionResponse.FromString(answer[5:]).action < 8


@pytest.mark.skipif(shutil.which("node") is None, reason="asks by Node's http2, which is not installed")
def test_many_calls_of_one_connection_by_node(doors: Doors) -> None:
    """200 calls at once over one connection, by a library that compresses headers and widens windows."""
    message = scheduler.StateRequest(state=[0.5] * 6).SerializeToString()
    framed = (b"\x00" + len(message).to_bytes(4, "big") + message).hex()
    script = f"""
    const http2 = require('http2');
    const session = http2.connect('http://{doors.address}');
    const said = {{}};
    let left = 200;
    for (let k = 0; k < 200; k++) {{
      const call = session.request({{':method': 'POST', ':path': '/scheduler.Scheduler/Predict',
        'content-type': 'application/grpc', 'te': 'trailers', 'x-request-id': 'call-' + k % 7}});
      let size = 0;
      call.on('data', data => size += data.length);
      call.on('trailers', trailers => {{
        const key = trailers['grpc-status'] + '/' + size;
        said[key] = (said[key] || 0) + 1;
      }});
      call.on('close', () => {{
        if (--left === 0) {{ console.log(JSON.stringify(said)); session.close(); }}
      }});
      call.end(Buffer.from('{framed}', 'hex'));
    }}
    """
    done = subprocess.run(["node", "-e", script], capture_output=True, check=True, timeout=120)
    said = json.loads(done.stdout)
    assert sum(said.values()) == 200 and all(key.startswith("0/") for key in said), said
