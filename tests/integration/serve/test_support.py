"""A support bundle describes an installation and contains none of its secrets."""

import asyncio
import json
import tarfile
from pathlib import Path

import pytest
import structlog

from core.errors import Conflict
from core.runtime import logs
from tests.fakes.clock import FakeClock
from tests.integration.serve.conftest import Running
from towline.serve.log_level import LogLevelFollower, request_level
from towline.settings import LogLevel, ServeSettings, load
from towline.support import MAX_LINES, redact_text, write_support_bundle

CANARY = "canary-0123-of-the-settings"
KEY = "-----BEGIN PRIVATE KEY-----\nTUlJ\n-----END PRIVATE KEY-----"


def with_canaries(data: Path) -> ServeSettings:
    """Settings with a secret of every kind that they have."""
    file = data.parent / "given.toml"
    file.write_text(
        f"""
        data = "{data}"
        redis = "redis://:{CANARY}@127.0.0.1:1"
        [git.peers]
        key = "{CANARY}{CANARY}"
        [git.fetch]
        proxy = "http://ada:{CANARY}@proxy.example.org:3128"
        [[auth.oidc]]
        name = "sso"
        issuer = "https://login.example.org"
        client_id = "towline"
        client_secret = "{CANARY}"
        [secrets.kek]
        kind = "command"
        command = ["unwrap", "--with={CANARY}"]
        [[secrets.previous]]
        kind = "vault"
        url = "https://vault.example.org"
        token = "{CANARY}"
        """
    )
    return load({}, file, environ={})


async def test_a_bundle_holds_no_secret(hub: Running, tmp_path: Path) -> None:
    """Of a running control plane, with secrets in its settings, its folder and its log."""
    cluster = await hub.cluster("kept")
    lines = [
        *(f"line {number}" for number in range(MAX_LINES)),
        f"connecting to https://ada:{CANARY}@git.example.org",
        f"Authorization: Bearer {CANARY}",
        f"token {cluster['deployToken']} of {hub.token}",
        f"a password alone: {CANARY}",
        *KEY.splitlines(),
    ]
    target = tmp_path / "support.tar.gz"
    made = await asyncio.to_thread(write_support_bundle, with_canaries(hub.data), target, lines)
    assert target.stat().st_mode & 0o777 == 0o600
    with tarfile.open(target) as bundle:
        texts = {
            Path(one.name).name: (bundle.extractfile(one) or pytest.fail()).read().decode()
            for one in bundle.getmembers()
        }
    assert list(texts) == made
    whole = "\n".join(texts.values())
    key = (hub.data / "encryption.key").read_bytes()
    for secret in (CANARY, hub.token, cluster["deployToken"], "TUlJ", key.hex()):
        assert secret not in whole
    settings = json.loads(texts["settings.json"])
    assert settings["auth"]["oidc"][0]["issuer"] == "https://login.example.org"
    assert settings["redis"] == settings["git"]["peers"]["key"] == "[redacted]"
    counts = json.loads(texts["counts.json"])
    assert counts["rows"]["clusters"] == 1 and counts["snapshot"]["clusters"]["never"] == 1
    assert "store" in {one["check"] for one in json.loads(texts["doctor.json"])}
    assert json.loads(texts["versions.json"])["towline"]
    assert "line 4999" in texts["log.txt"] and "line 3\n" not in texts["log.txt"]
    with pytest.raises(Conflict, match="already exists"):
        await asyncio.to_thread(write_support_bundle, ServeSettings(data=hub.data), target)


def test_a_private_key_that_is_cut_off_is_left_out() -> None:
    """As far as it goes: the end of a log may be anywhere."""
    cut = redact_text("before -----BEGIN RSA PRIVATE KEY-----\nTUlJ", ())
    assert cut == "before [redacted]"


async def test_the_level_of_logs_changes_while_it_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was asked of an earlier process is forgotten; what is no level changes nothing."""
    logs.configure("info", json=True)
    clock = FakeClock()
    request_level(tmp_path, LogLevel.ERROR)
    follows = asyncio.ensure_future(LogLevelFollower(tmp_path, LogLevel.INFO, clock).follow())
    logger = structlog.get_logger("test")
    try:
        await clock.advance(3)
        logger.debug("first")
        logger.info("second")
        (tmp_path / "log-level").write_text("loud")
        await clock.advance(3)
        logger.debug("third")
        request_level(tmp_path, LogLevel.DEBUG)
        assert (tmp_path / "log-level").stat().st_mode & 0o777 == 0o600
        await clock.advance(3)
        logger.debug("fourth")
    finally:
        follows.cancel()
        logs.set_level("info")
        structlog.reset_defaults()
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [one["event"] for one in said] == ["second", "log level changed", "fourth"]
    assert said[1]["least"] == "debug"
