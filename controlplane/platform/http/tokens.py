"""Bearer tokens of requests."""


def token_of(authorization: str) -> str:
    """Returns the token of an `Authorization: Bearer …` or `Token …` header; empty if there is
    none.
    """
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() in ("bearer", "token") else ""
