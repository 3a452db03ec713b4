"""Admitted repository URLs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from core.remotes import normalize_oci_url, parse_chart_remote, parse_remote


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://git.example.com/a/b.git", "https://git.example.com/a/b.git"),
        ("https://Git.Example.com:443/a/b/", "https://git.example.com/a/b"),
        ("http://127.0.0.1:8080/x.git", "http://127.0.0.1:8080/x.git"),
        ("https://0xdeadbeef.example/x.git", "https://0xdeadbeef.example/x.git"),
        ("https://1.example.org/x.git", "https://1.example.org/x.git"),
        ("ssh://git@host:2222/a/b", "ssh://git@host:2222/a/b"),
        ("git@github.com:org/repo.git", "ssh://git@github.com/org/repo.git"),
        ("http://[::1]:8080/x.git", "http://[::1]:8080/x.git"),
        ("https://host/My%20Project/a..b.git", "https://host/My%20Project/a..b.git"),
    ],
)
def test_the_normal_form_of_a_url(url: str, text: str) -> None:
    assert parse_remote(url).text == text


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc",
        "/etc/passwd",
        "../other",
        "ext::sh -c id",
        "ext::sh",
        "fd::17",
        "git://host/x",
        "-oProxyCommand=id",
        "--upload-pack=id",
        "ssh://-oProxyCommand=id/x",
        "ssh://user@-oProxyCommand=id/x",
        "ssh://-o@host/x",
        "ssh://git:secret@host/x",
        "git@host:-x",
        "https://token@host/x",
        "https://user:secret@host/x",
        "https://host/x?token=1",
        "https://host",
        "https://host/../x",
        "https://host/a/%2e%2e/x",
        "https://host/a/.%2E/x",
        "https://host/a/b%2f..%2fx",
        "https://host/a/b%5C..%5Cx",
        "https://host/a\\..\\x",
        "ssh://git@host/a/%2e%2e/x",
        "git@host:a/%2e%2e/x",
        "https://host/a b",
        "https://host/a\nb",
        "http://host:99999/x",
        "https:///x",
        "",
        "javascript:alert(1)",
        "http://2852039166/x",
        "http://127.1/x",
        "http://0177.0.0.1/x",
        "http://0x7f.1/x",
        "http://0xa9fea9fe/x",
        "http://169.254.169.254./x",
        "git@2852039166:x",
    ],
)
def test_hostile_urls_are_refused(url: str) -> None:
    with pytest.raises(Invalid):
        parse_remote(url)


@pytest.mark.parametrize("path", ["a/../x", "a/%2e%2e/x", "a/b%2F..%2Fx"])
def test_a_chart_repository_is_in_the_folder_that_its_url_names(path: str) -> None:
    """A fence compares URLs with patterns, such as `https://charts.example.org/shop/*`."""
    with pytest.raises(Invalid, match="its path is missing or invalid"):
        parse_chart_remote(f"https://host/{path}")
    with pytest.raises(Invalid, match="its path is missing or invalid"):
        normalize_oci_url(f"oci://host/{path}")


def test_a_password_in_a_url_is_not_repeated_in_the_error() -> None:
    with pytest.raises(Invalid) as caught:
        parse_remote("https://user:hunter2@host/x")
    assert "hunter2" not in caught.value.message


@given(st.text(max_size=80))
def test_any_text_is_a_remote_or_invalid(url: str) -> None:
    try:
        remote = parse_remote(url)
    except Invalid:
        return
    assert remote.scheme in {"http", "https", "ssh"}
    assert not remote.host.startswith("-") and not remote.path.startswith("-")
