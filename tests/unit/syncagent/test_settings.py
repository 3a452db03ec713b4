"""Settings from the environment."""

from pathlib import Path

import pytest

from core.errors import Invalid
from syncagent.compose import build
from syncagent.link.channel import Endpoint, parse_address
from syncagent.settings import from_environment

HUB = {"TOWLINE_AGENT_HUB_ADDRESS": "https://hub:443", "TOWLINE_AGENT_HUB_TOKEN": "twa_x"}


def test_groups_and_types() -> None:
    """Paths and numbers become what they are; others are left out."""
    settings = from_environment(
        HUB
        | {
            "TOWLINE_AGENT_KUBERNETES_CONCURRENCY": "4",
            "TOWLINE_AGENT_STATE_DIRECTORY": "/var/x",
            "PATH": "/bin",
        }
    )
    assert settings.kubernetes.concurrency == 4
    assert settings.state.directory == Path("/var/x")
    assert "twa_x" not in repr(settings)


def test_an_issuer_without_verification_starts_no_agent() -> None:
    """The agent would otherwise accept every identity that the control plane sends."""
    settings = from_environment(HUB | {"TOWLINE_AGENT_IDENTITY_ISSUER": "https://id.example.org"})
    with pytest.raises(Invalid, match="identity.issuer"):
        build(settings)


def test_a_token_may_be_in_a_file(tmp_path: Path) -> None:
    """The file's content without the line end."""
    (tmp_path / "t").write_text("twa_y\n")
    environ = {
        "TOWLINE_AGENT_HUB_ADDRESS": "h",
        "TOWLINE_AGENT_HUB_TOKEN_FILE": str(tmp_path / "t"),
    }
    assert from_environment(environ).hub.token == "twa_y"


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"TOWLINE_AGENT_HUB_ADDRESS": "h"},
        HUB | {"TOWLINE_AGENT_HUB_COLOUR": "red"},
        HUB | {"TOWLINE_AGENT_COLOUR": "red"},
        HUB | {"TOWLINE_AGENT_KUBERNETES_CONCURRENCY": "many"},
    ],
)
def test_missing_or_unknown_settings_are_refused(environ: dict[str, str]) -> None:
    """With the name of the variable."""
    with pytest.raises(Invalid, match="TOWLINE_AGENT_"):
        from_environment(environ)


def test_addresses() -> None:
    """TLS unless http:// is written out for this machine; the port may be left out."""
    assert parse_address("hub.example.org:8443") == (True, "hub.example.org", 8443)
    assert parse_address("https://hub.example.org") == (True, "hub.example.org", 443)
    assert parse_address("http://[::1]:80") == (False, "::1", 80)
    with pytest.raises(Invalid):
        parse_address("ftp://x")
    for address in ("http://hub.example.org:80", "http://10.0.0.1"):
        with pytest.raises(Invalid, match="has no TLS"):
            parse_address(address)
    assert "twa_x" not in repr(Endpoint("h", "twa_x"))
