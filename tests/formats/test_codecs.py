"""Decoded streams against the tools that made them: members, cuts, damage and bombs."""

from __future__ import annotations

import bz2
import gzip
import random
import zlib
from collections.abc import Callable

import lz4.frame
import pyarrow as pa
import pytest

from tidemill.errors import TidemillError
from tidemill.formats.reading import codecs
from tidemill.formats.reading.codecs import Decoded, parse_codec_options

ENCODE: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "lz4": lz4.frame.compress,
    "zstd": lambda data: _by_arrow(data, "zstd"),
}
CODECS = sorted(ENCODE)


def _by_arrow(data: bytes, codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return bytes(sink.getvalue())


def decode(codec: str, data: bytes, sizes: Callable[[], int] = lambda: 1 << 20, most: int = 1 << 40) -> Decoded:
    """Decode all of it; what was found is in the attribute ``found``."""
    at = 0

    def encoded() -> bytes:
        nonlocal at
        piece = data[at : at + sizes()]
        at += len(piece)
        return piece

    stream = Decoded(codec, encoded, most)
    pieces = []
    while not stream.ended:
        pieces.append(stream.fill())
        assert len(pieces[-1]) <= codecs.BUFFER_BYTES
        assert pieces[-1] or stream.ended
    stream.found = b"".join(pieces)  # type: ignore[attr-defined]
    assert stream.position == len(stream.found)  # type: ignore[attr-defined]
    return stream


def lines(random_: random.Random, count: int) -> bytes:
    return b"".join(
        b"%d,%x\n" % (random_.randrange(100), random_.getrandbits(random_.choice((4, 64)))) for _ in range(count)
    )


@pytest.mark.parametrize("codec", CODECS)
def test_members_in_buffers_of_any_size(codec: str, seed: int) -> None:
    random_ = random.Random(f"{codec} {seed}")
    for largest in (1, 2, 7, 100, 5000, 1 << 20):
        members = [lines(random_, random_.choice((0, 1, 3, 2000))) for _ in range(random_.randrange(1, 6))]
        data = b"".join(ENCODE[codec](m) for m in members)
        stream = decode(codec, data, lambda largest=largest: random_.randrange(1, largest + 1))  # type: ignore[misc]
        assert (stream.found, stream.damage) == (b"".join(members), None)  # type: ignore[attr-defined]


@pytest.mark.parametrize("codec", CODECS)
def test_large_members_and_many_small_ones(codec: str, seed: int) -> None:
    random_ = random.Random(seed)
    large = lines(random_, 300_000)
    small = [lines(random_, 2) for _ in range(3000)]
    data = ENCODE[codec](large) + b"".join(ENCODE[codec](m) for m in small)
    stream = decode(codec, data)
    assert (stream.found, stream.damage) == (large + b"".join(small), None)  # type: ignore[attr-defined]


@pytest.mark.parametrize("codec", CODECS)
def test_a_cut_anywhere_gives_the_bytes_before_it(codec: str, seed: int) -> None:
    random_ = random.Random(seed)
    first, second = lines(random_, 30), lines(random_, 400)
    head = ENCODE[codec](first)
    whole = head + ENCODE[codec](second)
    for cut in {*range(len(head) + 5), *(random_.randrange(len(whole)) for _ in range(100))}:
        stream = decode(codec, whole[:cut], lambda: 64)
        found: bytes = stream.found  # type: ignore[attr-defined]
        assert (first + second).startswith(found)
        assert stream.damage == (None if cut in (0, len(head)) else "truncated_archive")
        if cut >= len(head):
            assert len(found) >= len(first)


@pytest.mark.parametrize("codec", CODECS)
def test_garbage_behind_the_last_member(codec: str) -> None:
    stream = decode(codec, ENCODE[codec](b"a,b\n") + b"this is no archive")
    assert stream.found == b"a,b\n"  # type: ignore[attr-defined]
    assert stream.damage in ("corrupt_archive", "truncated_archive")


def test_zeros_behind_a_gzip_member_are_padding() -> None:
    one = gzip.compress(b"a\n") + bytes(5000)
    stream = decode("gzip", one + gzip.compress(b"") + bytes(3) + gzip.compress(b"b\n") + bytes(70_000), lambda: 13)
    assert (stream.found, stream.damage) == (b"a\nb\n", None)  # type: ignore[attr-defined]
    assert decode("gzip", bytes(10)).damage == "corrupt_archive"


@pytest.mark.parametrize("magic", [b"\x50\x2a\x4d\x18", b"\x5f\x2a\x4d\x18"])
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_skippable_frames(codec: str, magic: bytes) -> None:
    skipped = magic + (5).to_bytes(4, "little") + b"\n\n,,\n"
    stream = decode(codec, skipped + ENCODE[codec](b"a\n") + skipped + ENCODE[codec](b"b\n") + skipped)
    assert (stream.found, stream.damage) == (b"a\nb\n", None)  # type: ignore[attr-defined]


@pytest.mark.parametrize("codec", CODECS)
def test_damaged_bytes_never_hang_or_raise(codec: str, seed: int) -> None:
    random_ = random.Random(f"{codec} {seed}")
    data = lines(random_, 2000)
    whole = ENCODE[codec](data)
    damaged = 0
    for _ in range(150):
        changed = bytearray(whole)
        for _ in range(random_.randrange(1, 4)):
            changed[random_.randrange(min(len(whole), random_.choice((10, 200, 1 << 30))))] = random_.randrange(256)
        stream = decode(codec, bytes(changed), lambda: random_.choice((1, 100, 1 << 20)), most=1 << 20)
        damaged += stream.damage is not None
    assert damaged > 50
    for _ in range(300):
        decode(codec, random_.randbytes(random_.randrange(60)), lambda: 7)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_stops_at_the_limit(codec: str) -> None:
    bomb = ENCODE[codec](bytes(20 << 20))
    stream = decode(codec, bomb, most=3_000_001)
    assert stream.damage == "decompression_limit"
    assert stream.position == 3_000_001
    assert decode(codec, bomb, most=20 << 20).damage is None


def test_limits_and_suffixes() -> None:
    rules = parse_codec_options({})
    assert (rules.of("/a/b.csv.GZ"), rules.of("b.zst"), rules.of("b.bz2"), rules.of("b.lz4")) == (
        "gzip",
        "zstd",
        "bzip2",
        "lz4",
    )
    assert rules.of("/a.gz/b.csv") is None
    assert rules.most_decoded(10) == codecs.SMALL
    assert rules.most_decoded(1 << 20) == codecs.DEFAULT_RATIO << 20
    assert (rules.suspect_from(10), rules.suspect_from(1 << 20)) == (codecs.SMALL, 1000 << 20)
    assert rules.most_decoded(1 << 50) == codecs.MOST_DECODED
    given = parse_codec_options({"Compression": "GZIP", "maxDecompressedRatio": "70000000"})
    assert (given.of("plain.csv"), given.most_decoded(2)) == ("gzip", 140_000_000)
    assert parse_codec_options({"compression": "none"}).of("a.gz") is None


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [("compression", "gzipp", "did you mean 'gzip'?"), ("maxDecompressedRatio", "0", "a positive integer")],
)
def test_bad_options(name: str, value: str, hint: str) -> None:
    with pytest.raises(TidemillError, match="TM4003") as caught:
        parse_codec_options({name: value})
    assert caught.value.hint == hint


def test_zlib_without_a_gzip_header_is_no_gzip() -> None:
    assert decode("gzip", zlib.compress(b"abc")).damage == "corrupt_archive"


def limited(codec: str, encoded: bytes, **options: str) -> Decoded:
    rules = parse_codec_options(options)
    pieces = iter([encoded])
    stream = Decoded(
        codec, lambda: next(pieces, b""), rules.most_decoded(len(encoded)), rules.suspect_from(len(encoded))
    )
    while not stream.ended:
        stream.fill()
    return stream


def test_equal_rows_are_read_to_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "SMALL", 1 << 18)
    rows = b"1,some text,2\n" * 2_000_000
    encoded = ENCODE["zstd"](rows)
    assert len(rows) > 2 * codecs.SUSPECT_RATIO * len(encoded) > 2 * codecs.SMALL
    whole = limited("zstd", encoded)
    assert (whole.damage, whole.position) == (None, len(rows))
    told = limited("zstd", encoded, maxdecompressedratio=str(codecs.SUSPECT_RATIO))
    assert told.damage == "decompression_limit"
    assert told.position == codecs.SUSPECT_RATIO * len(encoded)


def test_a_row_without_end_is_a_bomb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "SMALL", 1 << 18)
    encoded = ENCODE["zstd"](bytes(20 << 20))
    begins = max(codecs.SMALL, codecs.SUSPECT_RATIO * len(encoded))
    found = limited("zstd", encoded)
    assert (found.damage, found.position) == ("decompression_limit", begins)
    rows = ENCODE["zstd"](b"a,b\n" * (5 << 20) + bytes(20 << 20))
    begins = max(codecs.SUSPECT_RATIO * len(rows), (20 << 20) + codecs.SMALL)
    found = limited("zstd", rows)
    assert (found.damage, found.position) == ("decompression_limit", begins)
    assert limited("zstd", rows, maxdecompressedratio="1000000").damage is None


def _gzip_with_header(flags: int, payload: bytes) -> bytes:
    """A member whose header has all that its flags say: 4 an extra field, 8 a name, 16 a comment, 2 a check sum."""
    header = b"\x1f\x8b\x08" + bytes([flags]) + b"\0\0\0\0\0\x03"
    header += b"\x08\0AB\x04\0abcd" if flags & 4 else b""
    header += b"name\0" if flags & 8 else b""
    header += b"comment\0" if flags & 16 else b""
    header += (zlib.crc32(header) & 0xFFFF).to_bytes(2, "little") if flags & 2 else b""
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    trailer = zlib.crc32(payload).to_bytes(4, "little") + len(payload).to_bytes(4, "little")
    return header + deflate.compress(payload) + deflate.flush() + trailer


@pytest.mark.parametrize("flags", range(0, 32, 2))
def test_gzip_headers_in_pieces_of_any_size(flags: int) -> None:
    """BGZF, for one, has an extra field in each of its members."""
    members = [_gzip_with_header(flags, b"%d,row\n" % i * 30) for i in range(4)]
    data = b"".join(members)
    for size in (1, 2, 3, 5, 11, 17, 100, len(data)):
        stream = decode("gzip", data, lambda size=size: size)
        assert stream.found == gzip.decompress(data)  # type: ignore[attr-defined]
        assert stream.damage is None


@pytest.mark.parametrize("flags", [0, 4, 30])
def test_gzip_members_cut_or_wrong_anywhere(flags: int, seed: int) -> None:
    """What zlib finds wrong is damage, and what is given before it is a beginning of what zlib gives."""
    chance = random.Random(seed)
    payload = lines(chance, 40)
    data = _gzip_with_header(flags, payload)
    for cut in range(1, len(data)):
        stream = decode("gzip", data[:cut], lambda: chance.choice((1, 7, 1000)))
        assert stream.damage == "truncated_archive"
        assert payload.startswith(stream.found)  # type: ignore[attr-defined]
    for at in range(len(data)):
        wrong = bytearray(data)
        wrong[at] ^= 1 << chance.randrange(8)
        stream = decode("gzip", bytes(wrong), lambda: chance.choice((1, 7, 1000)))
        expected = _by_zlib(bytes(wrong))
        if expected is None:
            assert stream.damage in ("truncated_archive", "corrupt_archive")
        else:
            assert (stream.damage, stream.found) == (None, expected)  # type: ignore[attr-defined]


def _by_zlib(member: bytes) -> bytes | None:
    """What zlib makes of one member; None where it finds something wrong."""
    inflate = zlib.decompressobj(wbits=31)
    try:
        found = inflate.decompress(member)
    except zlib.error:
        return None
    return found if inflate.eof and not inflate.unused_data else None
