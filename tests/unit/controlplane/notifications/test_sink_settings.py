"""Settings of sinks: hosts that URLs may name, and secrets that stay with their host."""

import base64
from dataclasses import replace

import pytest

from controlplane.notifications.model.commit_status import CommitStatus
from controlplane.notifications.model.sink_kind import MAX_URL_LENGTH, CommitSink, checked_host
from controlplane.notifications.sinks.github import GithubSink
from controlplane.notifications.sinks.gitlab import GitlabSink
from controlplane.notifications.sinks.webhook import WebhookSink
from core.errors import Invalid

WEB = ("https", "http")
SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
OTHER = "whsec_" + base64.b64encode(b"o" * 32).decode()
LONG = "https://h.example.org/" + "x" * MAX_URL_LENGTH


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://hooks.example.org/a?b=c", "hooks.example.org"),
        ("http://hooks.example.org:8080", "hooks.example.org"),
        ("https://[2001:db8::1]:443/x", "2001:db8::1"),
        (LONG[:MAX_URL_LENGTH], "h.example.org"),
        (LONG[: MAX_URL_LENGTH + 1], ""),
        ("", ""),
        ("https://", ""),
        ("hooks.example.org", ""),
        ("ftp://hooks.example.org", ""),
        ("file:///etc/passwd", ""),
        ("https://ada@hooks.example.org", ""),
        ("https://ada:word@hooks.example.org", ""),
        ("https://:word@hooks.example.org", ""),
        ("https://@hooks.example.org", ""),
        ("https://hooks.example.org:0", ""),
        ("https://hooks.example.org:99999", ""),
        ("https://hooks.example.org:x", ""),
        ("https://[::1", ""),
        ("https://hooks.example.org/a b", ""),
        ("https://hooks.example.org/\u202e", ""),
        ("https://hooks.example.org/\n", ""),
    ],
)
def test_a_url_names_a_host_and_no_credentials(url: str, host: str) -> None:
    """A password alone is a credential as well: requests would send it."""
    if host:
        assert checked_host(url, WEB, "url") == host
        return
    with pytest.raises(Invalid, match="https://, http:// and no credentials") as error:
        checked_host(url, WEB, "url")
    assert error.value.field == "url"


@pytest.mark.parametrize("kind", [GithubSink, GitlabSink])
def test_a_token_is_given_again_for_another_api(kind: type[CommitSink]) -> None:
    """Otherwise who may change a sink could send its token to a server of their own."""
    stored = kind("git", "canary-90d3-token", "https://api.example.org")
    for api_url in ("https://evil.example.org", None):
        moved = replace(stored, token="", api_url=api_url)
        if api_url is None:
            assert moved.completed(stored)[0].token == stored.token
            continue
        with pytest.raises(Invalid, match="must be set again for another API") as error:
            moved.completed(stored)
        assert error.value.field == "token"
        assert replace(moved, token="new").completed(stored)[0].api_url == api_url
    kept, secret = replace(stored, token="").completed(stored)
    assert (kept, secret) == (stored, None)


@pytest.mark.parametrize("token", ["", "x" * 10_000, "a\nb", "a\x00"])
def test_a_token_is_a_text_of_one_line(token: str) -> None:
    with pytest.raises(Invalid) as error:
        GithubSink("git", token).completed(None)
    assert error.value.field == "token"


@pytest.mark.parametrize(
    ("given", "secret", "is_new"),
    [
        (WebhookSink(), SECRET, False),
        (WebhookSink("https://a.example.org"), SECRET, False),
        (WebhookSink("https://b.example.org"), None, True),
        (WebhookSink("https://b.example.org", OTHER), OTHER, False),
        (WebhookSink("", OTHER), OTHER, False),
    ],
)
def test_a_new_receiver_gets_a_signing_secret_of_its_own(
    given: WebhookSink, secret: str | None, is_new: bool
) -> None:
    """Only a generated one is shown, once."""
    settings, generated = given.completed(WebhookSink("https://a.example.org", SECRET))
    assert (generated is not None) is is_new
    assert settings.secret == (secret or generated)
    assert settings.secret != SECRET or not is_new


@pytest.mark.parametrize("secret", ["word", "whsec_", "whsec_!", "whsec_" + "A" * 4])
def test_a_signing_secret_has_its_form(secret: str) -> None:
    with pytest.raises(Invalid):
        WebhookSink("https://a.example.org", secret).completed(None)


@pytest.mark.parametrize(
    ("sink", "url"),
    [
        (GithubSink("git", "t"), "https://api.github.com/repos/shop/deploy"),
        (GithubSink("git", "t", "https://ghe.example.org/api/v3"),
         "https://ghe.example.org/api/v3/repos/shop/deploy"),
        (GitlabSink("git", "t"), "https://github.com/api/v4/projects/shop%2Fdeploy"),
        (GitlabSink("git", "t", "https://gl.example.org/api/v4"),
         "https://gl.example.org/api/v4/projects/shop%2Fdeploy"),
    ],
)  # fmt: skip
def test_the_api_of_a_repository_is_that_of_its_host_or_of_the_settings(
    sink: CommitSink, url: str
) -> None:
    assert sink.api("https://github.com/shop/deploy.git").base == url


@pytest.mark.parametrize(
    ("state", "on_gitlab"),
    [("success", "success"), ("pending", "pending"), ("failure", "failed")],
)
def test_each_host_gets_its_own_word_for_a_failure(state: str, on_gitlab: str) -> None:
    outcome = CommitStatus("a" * 40, state, "towline/eu/web", "text")
    repository = "https://github.com/shop/deploy.git"
    for sink, expected in ((GithubSink("git", "t"), state), (GitlabSink("git", "t"), on_gitlab)):
        url, body = sink.api(repository).status(outcome)
        assert url.endswith(f"/statuses/{'a' * 40}") and body["state"] == expected
    assert outcome.is_final is (state != "pending")
