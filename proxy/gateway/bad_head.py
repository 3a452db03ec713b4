"""Refusals of requests before authorization."""


class BadHead(Exception):
    """A refused head, with the status and the message of the response."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
