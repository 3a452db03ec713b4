"""Guard of the agent: no request goes out as the agent itself or as a system user."""

import re
from dataclasses import dataclass

_LINE = re.compile(
    rb"Impersonate-(User|Group|Uid|Extra-[!#$%&'*+.^_`|~0-9A-Za-z-]+): ([^\r\n\0]+)\Z"
)
_HEAD = re.compile(
    rb"[A-Z]+ /[\x21-\x7e]* HTTP/1\.[01]\r\n"
    rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n\Z"
)
_RESERVED = re.compile(rb"(?i)\r\n(?:authorization|impersonate-[^:\r\n]*|host):")
_OWN_TOKEN = re.compile(rb"(?i)\r\nauthorization: bearer [^\r\n]+\r\n")
_OTHERS = re.compile(rb"(?i)\r\n(?:impersonate-[^:\r\n]*|host):")
_AUTHORIZATION = re.compile(rb"(?i)\r\nauthorization:")
_NEVER = frozenset({"system:masters"})
_SYSTEM = "system:"


class ForwardingRefused(Exception):
    """The agent refused to forward a request; the message is the reason."""


@dataclass(frozen=True, slots=True)
class ImpersonationPolicy:
    """Names with the prefix `system:` that the control plane may impersonate here; none by default.
    `passthrough`: requests may carry their user's own token instead of an identity.
    """

    system_users: frozenset[str] = frozenset()
    system_groups: frozenset[str] = frozenset()
    passthrough: bool = False


class Guard:
    """Checks the identity block and the head of each request; valid blocks are cached."""

    REMEMBERED = 4096

    def __init__(self, policy: ImpersonationPolicy) -> None:
        self._policy = policy
        self._good: set[bytes] = set()

    def check(self, identity: bytes, head: bytes) -> None:
        """Checks a request. Refused: no or a forbidden identity, or a head with another one."""
        if identity not in self._good:
            self._check_identity(identity)
            if len(self._good) >= self.REMEMBERED:
                self._good.clear()
            self._good.add(identity)
        if not _HEAD.match(head):
            raise ForwardingRefused("the head of the request is malformed")
        if _RESERVED.search(head):
            raise ForwardingRefused("the request contains an identity of its own")

    def check_passthrough(self, identity: bytes, head: bytes) -> None:
        """Checks a passthrough request. Refused: passthrough is off, or the request has not exactly
        one token and no other identity.
        """
        if not self._policy.passthrough:
            raise ForwardingRefused(
                "this cluster does not accept users' own tokens (setting kubernetes.passthrough)"
            )
        if not _HEAD.match(head):
            raise ForwardingRefused("the head of the request is malformed")
        tokens = len(_AUTHORIZATION.findall(head))
        if identity or tokens != 1 or not _OWN_TOKEN.search(head) or _OTHERS.search(head):
            raise ForwardingRefused("the request must identify its user by exactly one token")

    def _check_identity(self, identity: bytes) -> None:
        lines = identity.split(b"\r\n")
        if not identity or lines.pop():
            raise ForwardingRefused("the request has no identity")
        users = 0
        for line in lines:
            match = _LINE.match(line)
            if match is None:
                raise ForwardingRefused("the identity of the request is malformed")
            users += match[1] == b"User"
            self._check_name(match[1], match[2].decode("utf-8", "replace"))
        if users != 1:
            raise ForwardingRefused("the request must name exactly one user")

    def _check_name(self, kind: bytes, name: str) -> None:
        if kind not in {b"User", b"Group"} or not name.strip().startswith(_SYSTEM):
            return
        policy = self._policy
        allowed = policy.system_users if kind == b"User" else policy.system_groups
        if name in _NEVER or name not in allowed:
            raise ForwardingRefused(f'"{name}" may not be impersonated in this cluster')
