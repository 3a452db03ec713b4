"""Host key fingerprints of unknown ssh servers, for a person to compare and add."""

import asyncio
import base64
import binascii
import hashlib
from asyncio.subprocess import DEVNULL, PIPE

_SECONDS = 8.0
_MAX_KEYS = 8


async def scan_host_keys(address: str, port: int) -> list[str]:
    """Lists `<kind> SHA256:<fingerprint>` of each host key; empty without an answer."""
    try:
        process = await asyncio.create_subprocess_exec(
            *("ssh-keyscan", "-T", "5", "-p", str(port), "--", address),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return []
    try:
        async with asyncio.timeout(_SECONDS):
            out, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return []
    return fingerprints(out.decode("ascii", "replace"))


def fingerprints(text: str) -> list[str]:
    """Computes fingerprints in the form of `ssh-keygen -l` from lines of known_hosts."""
    fingerprints = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 3 or fields[0].startswith("#"):
            continue
        try:
            digest = hashlib.sha256(base64.b64decode(fields[2], validate=True)).digest()
        except (binascii.Error, ValueError):
            continue
        fingerprints.append(
            f"{fields[1][:40]} SHA256:{base64.b64encode(digest).decode().rstrip('=')}"
        )
    return sorted(fingerprints)[:_MAX_KEYS]
