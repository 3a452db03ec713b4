"""Why a request is refused before anybody is asked."""


class BadHead(Exception):
    """A head that is refused: the status to answer with and a sentence why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
