"""Program that serves one fixed Git response, at minimal cost for the machine.

Its argument is the response in hex; it prints its port.
"""

import asyncio
import sys

_HEAD = (
    "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\n"
    "Content-Length: {}\r\n\r\n"
)


async def main(answer: bytes) -> None:
    """Answers every request with the same bytes."""
    response = _HEAD.format(len(answer)).encode() + answer

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length or 0))
                writer.write(response)
        except asyncio.IncompleteReadError:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(bytes.fromhex(sys.argv[1])))
