"""A public site that behaves as its paths say, well or badly."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote

PUBLIC = "93.184.216.34"
PUBLIC_6 = "2606:2800:220:1::1"
OTHER = "93.184.216.99"

Reader: TypeAlias = asyncio.StreamReader
Writer: TypeAlias = asyncio.StreamWriter
_PIECE = b"x" * 65536
_LINE = b"HTTP/1.1 200 OK\r\n"


async def serve(reader: Reader, writer: Writer) -> None:
    """Answer the calls of one connection."""
    try:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                await _answer(reader, writer)
                await writer.drain()
    finally:
        writer.close()


def tls_context(folder: Path, name: str) -> ssl.SSLContext:
    """What the site shows of itself: a certificate of `certificates.py`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{name}.pem")
    return context


async def _answer(reader: Reader, writer: Writer) -> None:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = lines[0].split(" ")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    kind, _, rest = path.lstrip("/").partition("/")
    if kind == "to":
        status, _, place = rest.partition("/")
        writer.write(f"HTTP/1.1 {status} Moved\r\nLocation: {unquote(place)}\r\n".encode())
        writer.write(b"Content-Length: 0\r\n\r\n")
    elif kind in BAD:
        await BAD[kind](writer)
        raise ConnectionResetError
    else:
        said = {"method": method, "path": path, "headers": headers, "body": body.decode()}
        _whole(writer, json.dumps(said).encode(), b"Refresh: 0;url=http://127.0.0.1/\r\n")


def _whole(writer: Writer, body: bytes, headers: bytes = b"") -> None:
    writer.write(_LINE + headers + b"Content-Length: %d\r\n\r\n" % len(body) + body)


async def _endless(writer: Writer) -> None:
    writer.write(_LINE + b"Content-Length: 10737418240\r\n\r\n")
    while True:
        writer.write(_PIECE)
        await writer.drain()


async def _bomb(writer: Writer) -> None:
    """A body that is 1,000 times larger once it is decompressed, again and again."""
    packed = gzip.compress(b"\0" * 10_000_000)
    writer.write(_LINE + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"%x\r\n" % len(packed) + packed + b"\r\n")
        await writer.drain()


async def _empty_members(writer: Writer) -> None:
    """Gzip that decompresses to nothing, for ever."""
    packed = gzip.compress(b"") * 3000
    writer.write(_LINE + b"Content-Encoding: gzip\r\n\r\n")
    while True:
        writer.write(packed)
        await writer.drain()


async def _drip(writer: Writer) -> None:
    writer.write(_LINE + b"Content-Length: 1000000\r\n\r\n")
    await _bytewise(writer, b"x")


async def _drip_head(writer: Writer) -> None:
    writer.write(_LINE + b"X-Long: ")
    await _bytewise(writer, b"x")


async def _bytewise(writer: Writer, byte: bytes) -> None:
    while True:
        writer.write(byte)
        await writer.drain()
        await asyncio.sleep(0.02)


async def _headers(writer: Writer) -> None:
    writer.write(_LINE)
    for number in range(1_000_000):
        writer.write(b"X-%d: y\r\n" % number)
        await writer.drain()


async def _many_headers(writer: Writer) -> None:
    _whole(writer, b"", b"".join(b"X-%d: y\r\n" % number for number in range(150)))
    await writer.drain()


async def _interim(writer: Writer) -> None:
    while True:
        writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100)
        await writer.drain()


async def _hundred_interim(writer: Writer) -> None:
    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
    _whole(writer, b"after all")
    await writer.drain()


async def _other(writer: Writer) -> None:
    writer.write(b"-ERR unknown command 'GET'\r\n")
    await writer.drain()


async def _nothing(writer: Writer) -> None:
    await asyncio.sleep(3600)


async def _reset(writer: Writer) -> None:
    writer.transport.abort()


async def _brotli(writer: Writer) -> None:
    _whole(writer, b"?", b"Content-Encoding: br\r\n")
    await writer.drain()


async def _gzip(writer: Writer) -> None:
    _whole(
        writer, gzip.compress(b"small and ") + gzip.compress(b"fine"), b"Content-Encoding: gzip\r\n"
    )
    await writer.drain()


async def _upgrade(writer: Writer) -> None:
    writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
    await writer.drain()


BAD: dict[str, Callable[[Writer], Awaitable[None]]] = {
    "endless": _endless,
    "bomb": _bomb,
    "empty-members": _empty_members,
    "drip": _drip,
    "drip-head": _drip_head,
    "headers": _headers,
    "many-headers": _many_headers,
    "interim": _interim,
    "hundred-interim": _hundred_interim,
    "other": _other,
    "nothing": _nothing,
    "reset": _reset,
    "brotli": _brotli,
    "gzip": _gzip,
    "upgrade": _upgrade,
}
