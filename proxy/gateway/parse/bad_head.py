"""Refusals of requests before authorization."""


class BadHead(Exception):
    """A refused head, with the status and the message of the response.
    `start`: the received bytes of the head, for the audit log.
    """

    def __init__(self, status: int, message: str, start: bytes = b"") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.start = start
