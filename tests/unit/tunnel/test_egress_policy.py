"""Hosts of its network that an agent lets the hub reach."""

import pytest

from core.errors import Invalid
from syncagent.tunnel.egress import EgressPolicy

POLICY = EgressPolicy.parse("git.corp.example:443, *.forge.example:22,[fd00::1]:9418")


@pytest.mark.parametrize(
    ("target", "found"),
    [
        (b"git.corp.example:443", ("git.corp.example", 443)),
        (b"GIT.corp.example:443", ("git.corp.example", 443)),
        (b"a.forge.example:22", ("a.forge.example", 22)),
        (b"a.b.forge.example:22", ("a.b.forge.example", 22)),
        (b"[fd00::1]:9418", ("fd00::1", 9418)),
        (b"git.corp.example:444", None),
        (b"forge.example:22", None),
        (b"xforge.example:22", None),
        (b"git.corp.example.evil.example:443", None),
        (b"*.forge.example:22", None),
        (b"169.254.169.254:80", None),
        (b"git.corp.example:443\r\nX: y", None),
        (b"", None),
        (b"\xff\xfe:1", None),
    ],
)
def test_only_listed_hosts_and_ports_are_dialled(
    target: bytes, found: tuple[str, int] | None
) -> None:
    """Names are whole, ports are exact, case does not matter."""
    assert POLICY.target(target) == found


def test_nothing_is_allowed_unless_said() -> None:
    """The default list is empty."""
    assert EgressPolicy.parse("").target(b"git.corp.example:443") is None


@pytest.mark.parametrize("text", ["git.example", "git.example:https", "*:443", "a b:1", "x:123456"])
def test_a_list_that_cannot_be_meant_is_refused(text: str) -> None:
    """At start, with the entry named."""
    with pytest.raises(Invalid):
        EgressPolicy.parse(text)
