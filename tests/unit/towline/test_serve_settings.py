"""Sources of settings of `towline serve`, and their precedence."""

from pathlib import Path

import pytest

from core.errors import Invalid
from tests.fakes.clock import FakeClock
from towline.certificate_authority import certificate_names
from towline.serve.listeners import server_certificate
from towline.settings import TlsSettings, load, unknown_variables


def test_a_flag_wins_over_environment_file_and_default(tmp_path: Path) -> None:
    """Each source fills in what the stronger ones leave open, also inside a group."""
    config = tmp_path / "towline.toml"
    config.write_text(
        """
        listen = "file:1"
        listen_http = "file:2"
        listen_agents = "file:3"
        [git.poll]
        seconds = 30
        seconds_with_webhook = 300
        """
    )
    environ = {"TOWLINE_LISTEN_HTTP": "env:2", "TOWLINE_LISTEN": "env:1", "HOME": "/"}
    environ |= {"TOWLINE_GIT__POLL__SECONDS": "7", "TOWLINE_TLS__NAMES": "a.example.org, 10.0.0.1"}
    settings = load({"listen": "flag:1", "data": None}, config, environ)
    assert (settings.listen, settings.listen_http, settings.listen_agents) == (
        "flag:1",
        "env:2",
        "file:3",
    )
    assert (settings.git.poll.seconds, settings.git.poll.seconds_with_webhook) == (7, 300)
    assert settings.tls.names == ("a.example.org", "10.0.0.1")
    assert settings.listen_metrics == "127.0.0.1:9090"


def test_a_secret_may_come_from_a_file_and_is_never_shown(tmp_path: Path) -> None:
    """`…_FILE` names a file; printing the settings hides what it holds."""
    secret = tmp_path / "url"
    secret.write_text("postgresql://towline:canary@db/towline\n")
    settings = load({}, environ={"TOWLINE_DATABASE_FILE": str(secret)})
    assert settings.database is not None
    assert settings.database.get_secret_value().endswith("@db/towline")
    assert "canary" not in repr(settings)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"TOWLINE_GIT__POLL__SECONDS": "often"}, "setting git.poll.seconds"),
        ({"TOWLINE_DRAIN_SECONDS": "-1"}, "setting drain_seconds"),
    ],
)
def test_unknown_and_wrong_settings_are_named(environ: dict[str, str], message: str) -> None:
    """A typing error is refused with its name, never passed over."""
    with pytest.raises(Invalid, match=message):
        load({}, environ=environ)


def test_unknown_keys_of_the_file_are_named(tmp_path: Path) -> None:
    config = tmp_path / "serve.toml"
    config.write_text("listn = 1")
    with pytest.raises(Invalid, match="setting listn: extra inputs are not permitted"):
        load({}, config, {})


@pytest.mark.parametrize(
    "variable",
    [
        "TOWLINE_LISTN",
        "TOWLINE_GIT__POL__SECONDS",
        "TOWLINE_SERVICE_PORT",
        "TOWLINE_PROXY__STREAMZ__X",
    ],
)
def test_unknown_variables_are_reported_and_ignored(variable: str) -> None:
    """Kubernetes sets `TOWLINE_SERVICE_PORT` in each pod beside a Service `towline`."""
    environ = {variable: "x", "TOWLINE_LISTEN": "a:1", "TOWLINE_TOKEN": "x", "PATH": "/"}
    environ |= {"TOWLINE_GIT__POLL__SECONDS": "7", "TOWLINE_AGENT_X": "y"}
    environ |= {"TOWLINE_AUTH__OIDC": "[]"}
    assert unknown_variables(environ) == [variable]
    assert load({}, environ={variable: "x", "TOWLINE_LISTEN": "a:1"}).listen == "a:1"


def test_settings_of_an_agent_on_the_same_machine_are_not_ours() -> None:
    """Both programs may be started from one environment."""
    assert load({}, environ={"TOWLINE_AGENT_HUB_ADDRESS": "https://x"}).listen


def test_the_data_directory_is_a_whole_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """git runs elsewhere, where a relative path would mean another folder."""
    assert load({"data": Path("data")}, environ={}).data == Path.cwd() / "data"


def test_the_certificate_follows_the_names(tmp_path: Path) -> None:
    """A name that is added later is in the certificate; otherwise it stays the same file."""
    clock = FakeClock()
    first = server_certificate(TlsSettings(), tmp_path, clock).certificate.read_bytes()
    again = server_certificate(TlsSettings(names=("localhost",)), tmp_path, clock)
    assert again.certificate.read_bytes() == first
    more = server_certificate(TlsSettings(names=("localhost", "hub.example.org")), tmp_path, clock)
    assert certificate_names(more.certificate) == {"localhost", "hub.example.org"}
    assert (tmp_path / "ca.crt").exists()


async def test_the_certificate_is_renewed_before_its_end(tmp_path: Path) -> None:
    """A month before the end a start makes a new one, of the same authority."""
    clock = FakeClock()
    authority = tmp_path / "ca.crt"
    first = server_certificate(TlsSettings(), tmp_path, clock).certificate.read_bytes()
    issuer = authority.read_bytes()
    await clock.advance(340 * 86_400)
    assert server_certificate(TlsSettings(), tmp_path, clock).certificate.read_bytes() != first
    assert authority.read_bytes() == issuer


def test_half_a_certificate_is_refused(tmp_path: Path) -> None:
    """A certificate without its key cannot serve."""
    with pytest.raises(Invalid, match="both cert and key"):
        server_certificate(TlsSettings(cert=tmp_path / "a.crt"), tmp_path, FakeClock())


def test_secrets_of_lists_come_from_files(tmp_path: Path) -> None:
    """Environment variables cannot name an item of a list."""
    file = tmp_path / "secret"
    file.write_text("canary-1234file\n")
    config = tmp_path / "towline.toml"
    config.write_text(
        f"""
[[auth.oidc]]
name = "corp"
issuer = "https://idp.example.org"
client_id = "towline"
client_secret_file = "{file}"
[[secrets.vaults]]
name = "main"
url = "https://vault.example.org"
token_file = "{file}"
[[secrets.previous]]
kind = "environment"
value_file = "{file}"
[traces]
authorization_file = "{file}"
"""
    )
    settings = load({}, config, {})
    found = [
        settings.auth.oidc[0].client_secret,
        settings.secrets.vaults[0].token,
        settings.secrets.previous[0].value,
        settings.traces.authorization,
    ]
    assert {secret.get_secret_value() for secret in found} == {"canary-1234file"}
    assert "canary" not in repr(settings)
    config.write_text(config.read_text() + 'authorization = "x"\n')
    with pytest.raises(Invalid, match="either authorization or authorization_file"):
        load({}, config, {})
    file.unlink()
    with pytest.raises(Invalid, match="client_secret_file: cannot read"):
        load({}, config, {})


def test_the_proxy_protocol_needs_listeners_that_read_it() -> None:
    assert load({"proxy_protocol": "192.0.2.1, 198.51.100.0/24"}, None, {}).proxy_protocol == (
        "192.0.2.1",
        "198.51.100.0/24",
    )
    with pytest.raises(Invalid, match="proxy_protocol needs .*http2"):
        load({"proxy_protocol": "192.0.2.1", "agents_wire": "grpcio"}, None, {})
