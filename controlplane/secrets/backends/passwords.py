"""Argon2 hashes of passwords, a few at a time in threads: one takes 100 ms and 64 MiB."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from core.errors import LimitExceeded

THREADS = 2
MAX_QUEUED = 32


class ArgonPasswords:
    """Implements `Passwords`. Rejects calls beyond `MAX_QUEUED` instead of making all wait."""

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="argon2")
        self._waiting = 0
        self._dummy_hash: str | None = None

    async def hash(self, password: str) -> str:
        return await self._run_in_thread(self._hasher.hash, password)

    async def verify(self, hash: str | None, password: str) -> bool:
        if self._dummy_hash is None:
            self._dummy_hash = await self.hash("nobody has this password")
        is_right = await self._run_in_thread(self._verify_hash, hash or self._dummy_hash, password)
        return is_right and hash is not None

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _verify_hash(self, hash: str, password: str) -> bool:
        try:
            return self._hasher.verify(hash, password)
        except (VerificationError, InvalidHashError):
            return False

    async def _run_in_thread(self, work, *arguments):
        if self._waiting >= MAX_QUEUED:
            raise LimitExceeded("too many sign-ins at the same time: try again", retry_after=2.0)
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, work, *arguments)
        finally:
            self._waiting -= 1
