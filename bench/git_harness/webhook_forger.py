"""Program that sends webhooks with wrong signatures; arguments: port, path, connections.

Each connection sends requests in sequence. At the end of its input, the program prints the number
of refusals per second.
"""

import asyncio
import sys
import time

counts = {"refused": 0}
_BODY = b'{"ref": "refs/heads/main", "after": "' + b"1" * 40 + b'"}'


def request(path: str) -> bytes:
    """Formats one forged webhook."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"X-Hub-Signature-256: sha256={'0' * 64}\r\nContent-Length: {len(_BODY)}\r\n\r\n"
    )
    return head.encode() + _BODY


async def send(port: int, text: bytes) -> None:
    """Sends on one connection until cancelled."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while True:
        writer.write(text)
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length or 0))
        counts["refused"] += head.startswith(b"HTTP/1.1 401")


async def main(port: int, path: str, connections: int) -> None:
    """Sends until the input ends."""
    started = time.perf_counter()
    sending = [asyncio.ensure_future(send(port, request(path))) for _ in range(connections)]
    await asyncio.to_thread(sys.stdin.read)
    print(counts["refused"] / (time.perf_counter() - started))
    for task in sending:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
