"""Sends webhooks with wrong signatures, as a program: port, path, how many a second (0: all).

At the end of its input it prints how many a second were refused.
"""

import asyncio
import sys
import time

CONNECTIONS = 8
_BODY = b'{"ref": "refs/heads/main", "after": "' + b"1" * 40 + b'"}'


def request(path: str) -> bytes:
    """One of them."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"X-Hub-Signature-256: sha256={'0' * 64}\r\nContent-Length: {len(_BODY)}\r\n\r\n"
    )
    return head.encode() + _BODY


async def send(port: int, text: bytes, rate: float, done: asyncio.Event) -> int:
    """One connection's share; how many were refused."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    refused, due = 0, time.perf_counter()
    while not done.is_set():
        writer.write(text)
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length or 0))
        refused += head.startswith(b"HTTP/1.1 401")
        if rate:
            due += 1 / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
    writer.close()
    return refused


async def main(port: int, path: str, rate: float) -> None:
    """Send until the input ends."""
    done, started = asyncio.Event(), time.perf_counter()
    share = rate / CONNECTIONS
    sending = [send(port, request(path), share, done) for _ in range(CONNECTIONS)]
    counting = asyncio.gather(*sending)
    await asyncio.to_thread(sys.stdin.read)
    done.set()
    print(sum(await counting) / (time.perf_counter() - started))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3])))
