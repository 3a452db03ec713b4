"""Guard of the agent: no request goes out as the agent itself or as a system user."""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from core.errors import Invalid

_LINE = re.compile(
    rb"Impersonate-(User|Group|Uid|Extra-[!#$%&'*+.^_`|~0-9A-Za-z-]+): ([^\r\n\0]+)\Z"
)
_HEAD = re.compile(
    rb"[A-Z]+ /[\x21-\x7e]* HTTP/1\.[01]\r\n"
    rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n\Z"
)
_RESERVED = re.compile(rb"(?i)\r\n(?:authorization|impersonate-[^:\r\n]*|host):")
_OWN_TOKEN = re.compile(rb"(?i)\r\nauthorization: bearer [^\r\n]+\r\n")
_OTHER_IDENTITY = re.compile(rb"(?i)\r\n(?:impersonate-[^:\r\n]*|host):")
_AUTHORIZATION = re.compile(rb"(?i)\r\nauthorization:")
_DOT_SEGMENT = re.compile(rb"(?i)[A-Z]+ [^ ?]*(?:/|\\|%2f|%5c)(?:\.|%2e){1,2}(?:[/\\ ?]|%2f|%5c)")
_MASTERS = "system:masters"
_SYSTEM = "system:"
_IDENTITY = re.compile(r"(user|group):(system:[^?\[\]]+)")


class ForwardingRefused(Exception):
    """The agent refused to forward a request; the message is the reason."""


@dataclass(frozen=True, slots=True)
class ImpersonationPolicy:
    """Names with the prefix `system:` that the control plane may impersonate here; none by default.
    In a name, `*` matches any text, but only the full name `system:masters` permits that group.
    `passthrough`: requests may carry their user's own token instead of an identity.
    """

    system_users: tuple[str, ...] = ()
    system_groups: tuple[str, ...] = ()
    passthrough: bool = False

    @classmethod
    def parse(cls, text: str, *, passthrough: bool = False) -> "ImpersonationPolicy":
        """Parses a list such as `user:system:node:*,group:system:nodes`. Invalid: an entry has
        another form.
        """
        names: dict[str, list[str]] = {"user": [], "group": []}
        for entry in filter(None, map(str.strip, text.split(","))):
            match = _IDENTITY.fullmatch(entry)
            if match is None:
                raise Invalid(
                    f"{entry!r} is not user:system:NAME or group:system:NAME",
                    field="kubernetes.system_identities",
                )
            names[match[1]].append(match[2])
        return cls(tuple(names["user"]), tuple(names["group"]), passthrough)

    def allows(self, kind: bytes, name: str) -> bool:
        """Reports whether a user or a group that begins with `system:` is permitted."""
        names = self.system_users if kind == b"User" else self.system_groups
        return name in names or (
            name != _MASTERS and any(fnmatchcase(name, pattern) for pattern in names)
        )


class Guard:
    """Checks the identity block and the head of each request; valid blocks are cached.
    `below_prefix`: the API server is a path of another server, whose other paths are refused.
    """

    MAX_CACHED_BLOCKS = 4096

    def __init__(self, policy: ImpersonationPolicy, *, below_prefix: bool = False) -> None:
        self._policy, self._below_prefix = policy, below_prefix
        self._valid_blocks: set[bytes] = set()

    def check(self, identity: bytes, head: bytes) -> None:
        """Checks a request. ForwardingRefused: it has no identity, a forbidden one, or two."""
        if identity not in self._valid_blocks:
            self._check_identity(identity)
            if len(self._valid_blocks) >= self.MAX_CACHED_BLOCKS:
                self._valid_blocks.clear()
            self._valid_blocks.add(identity)
        self.check_head(head)

    def check_head(self, head: bytes) -> None:
        """Checks a head alone. ForwardingRefused: it is malformed or has an identity."""
        self._check_form(head)
        if _RESERVED.search(head):
            raise ForwardingRefused("the request contains an identity of its own")

    def check_passthrough(self, identity: bytes, head: bytes) -> None:
        """Checks a passthrough request. ForwardingRefused: passthrough is off, or the request does
        not have exactly one token and no other identity.
        """
        if not self._policy.passthrough:
            raise ForwardingRefused(
                "this cluster does not accept users' own tokens (setting kubernetes.passthrough)"
            )
        self._check_form(head)
        tokens = len(_AUTHORIZATION.findall(head))
        if identity or tokens != 1 or not _OWN_TOKEN.search(head) or _OTHER_IDENTITY.search(head):
            raise ForwardingRefused("the request must identify its user by exactly one token")

    def _check_form(self, head: bytes) -> None:
        if not _HEAD.match(head):
            raise ForwardingRefused("the head of the request is malformed")
        if self._below_prefix and _DOT_SEGMENT.match(head):
            raise ForwardingRefused("the path of the request has dot segments")

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
        if not self._policy.allows(kind, name):
            raise ForwardingRefused(
                f'"{name}" may not be impersonated in this cluster; to permit it, list '
                f"{kind.decode().lower()}:{name} in the agent's setting "
                "kubernetes.system_identities"
            )
