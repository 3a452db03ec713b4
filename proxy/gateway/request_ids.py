"""Ids of requests."""

import secrets

IDS_PER_BATCH = 256


class RequestIds:
    """Random ids of 32 hex digits, read from the system in batches."""

    def __init__(self) -> None:
        self._unused: list[str] = []

    def next(self) -> str:
        """Returns an unused id."""
        if not self._unused:
            digits = secrets.token_hex(16 * IDS_PER_BATCH)
            self._unused = [digits[start : start + 32] for start in range(0, len(digits), 32)]
        return self._unused.pop()
