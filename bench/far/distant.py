#!/usr/bin/env python3
"""bench/far/distant.py PORT MILLISECONDS: makes the HTTP server on PORT of this machine seem far away.

Each answer is held back for MILLISECONDS; any number of requests are under way at a time. Prints the
port on which it listens. What it forwards it does not change.
"""

import asyncio
import sys

BEHIND, DELAY = int(sys.argv[1]), int(sys.argv[2]) / 1000


async def message(reader):
    """The head and the body of the next message; None at the end."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    lines = [line.partition(b":") for line in head.lower().split(b"\r\n")]
    length = next((int(value) for name, _, value in lines if name == b"content-length"), 0)
    return head, length


async def serve(reader, writer):
    try:
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", BEHIND)
        while (request := await message(reader)) is not None:
            head, length = request
            to_writer.write(head + await reader.readexactly(length))
            await to_writer.drain()
            answer = await message(to_reader)
            if answer is None:
                break
            first, length = answer
            has_none = head.startswith(b"HEAD") or b" 204 " in first[:20] or b" 304 " in first[:20]
            body = b"" if has_none else await to_reader.readexactly(length)
            await asyncio.sleep(DELAY)
            writer.write(first + body)
            await writer.drain()
        to_writer.close()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
