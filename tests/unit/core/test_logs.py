"""Logs show what happened and no secret."""

import errno
import io
import json
import logging
import os
import subprocess
import sys

import hpack
import pytest
import structlog

from core.identity import TokenKind, new_token
from core.runtime import logs


@pytest.fixture(autouse=True)
def plain_structlog():
    """Leave logging as other tests expect it."""
    yield
    structlog.reset_defaults()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("token twa_abcdefghijk1 refused", "token [redacted] refused"),
        ("https://user:pass@git.example.org/x", "https://[redacted]@git.example.org/x"),
        ("Authorization: Bearer abc.def-1", "Authorization: [redacted]"),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_tokens_and_credentials_are_left_out(text: str, left: str) -> None:
    """Text that looks like a credential is replaced, the rest stays readable."""
    assert logs.redact(text) == left


@pytest.mark.parametrize("as_json", [True, False])
def test_a_traceback_shows_no_values_of_variables(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Frames are named, what their variables held is not; in both forms of the log."""
    logs.configure("info", json=as_json)
    password = "canary" + "-secret"
    try:
        raise RuntimeError(f"no luck with {len(password)} characters of https://a:b@example.org")
    except RuntimeError:
        structlog.get_logger("x").exception("failed", action="try")
    printed = capsys.readouterr().err
    assert "no luck with 13 characters" in printed
    assert password not in printed and "a:b" not in printed


def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A program can read each line by itself."""
    logs.configure("info", json=True)
    structlog.get_logger("x").info("ready", token="twu_" + "a" * 49)
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line) | {"timestamp": ""} == {
        "event": "ready",
        "level": "info",
        "timestamp": "",
        "token": "[redacted]",
    }


LIBRARY = """
import logging
from core.runtime import logs
logs.configure("info", json=True)
try:
    raise OSError("https://ada:canary@example.org is away")
except OSError:
    logging.getLogger("library").exception("no luck with %s", "https://ada:canary@example.org")
"""


def test_library_logs_are_redacted_and_formatted_alike() -> None:
    """In a process of its own: the test runner has handlers for theirs."""
    done = subprocess.run(
        [sys.executable, "-c", LIBRARY], capture_output=True, text=True, check=True
    )
    (line,) = done.stderr.splitlines()
    said = json.loads(line)
    assert (said["logger"], said["level"]) == ("library", "error")
    assert said["event"] == "no luck with https://[redacted]@example.org"
    assert "OSError" in said["exception"]
    assert "canary" not in line


class FullDisk(io.StringIO):
    """A stream onto a disk that takes nothing."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_log_that_cannot_be_written_ends_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk costs lines, not the request or the agent's call that wanted to write them."""
    monkeypatch.setattr(sys, "stderr", FullDisk())
    logs.configure("info", json=True)
    structlog.get_logger("full").info("hello")


def test_no_library_shows_headers_at_any_level(capsys: pytest.CaptureFixture[str]) -> None:
    """Not even with everything turned on: what HPACK packs and unpacks has tokens in it."""
    token, root = "canary" + "-secret", logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    try:
        logs.configure("debug")
        root.setLevel(logging.DEBUG)
        root.addHandler(logging.StreamHandler(sys.stderr))
        logging.getLogger("another").debug("heard")
        block = hpack.Encoder().encode([("authorization", token), ("x-more", token)])
        assert ("x-more", token) in list(hpack.Decoder().decode(block))
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
    printed = capsys.readouterr().err
    assert "heard" in printed
    assert token not in printed and "header table" not in printed


@pytest.mark.parametrize("kind", TokenKind)
def test_tokens_of_every_kind_are_left_out(kind: TokenKind) -> None:
    token = new_token(kind)
    assert logs.redact(f"got {token}, again {token}") == "got [redacted], again [redacted]"
