"""The account that opens a chart repository."""

import pytest

from core.identity import RepositoryId
from core.spec.source import GitCredentials, RepositoryKind, RepositorySpec
from gitcache.charts.credentials import ChartCredentialFinder


def followed(*urls: str) -> ChartCredentialFinder:
    """Repositories with the URL as user name, in project `shop`."""
    specs = (
        RepositorySpec(
            RepositoryId(url),
            url,
            frozenset(),
            GitCredentials(username=url, password="secret"),
            project="shop",
            kind=RepositoryKind.HELM,
        )
        for url in urls
    )
    return ChartCredentialFinder({spec.id: spec for spec in specs})


@pytest.mark.parametrize(
    ("known", "asked"),
    [
        ("https://charts.jetstack.io", "https://charts.jetstack.io"),
        ("https://charts.jetstack.io", "https://charts.jetstack.io/"),
        ("https://charts.jetstack.io/", "https://charts.jetstack.io/stable"),
        ("https://Charts.Jetstack.io:443", "https://charts.jetstack.io"),
        ("oci://ghcr.io", "oci://ghcr.io/team/charts"),
        ("https://ghcr.io", "oci://ghcr.io/team/charts"),
        ("http://localhost:5000", "oci://localhost:5000/charts"),
        ("https://example.org/charts", "https://example.org/charts/stable"),
    ],
)
def test_a_repository_opens_its_url_and_the_urls_below_it(known: str, asked: str) -> None:
    found = followed(known).find(asked, "shop")
    assert found is not None and found.id == known


@pytest.mark.parametrize(
    ("known", "asked"),
    [
        ("https://charts.jetstack.io", "https://charts.jetstack.io.example.org"),
        ("https://charts.jetstack.io", "http://charts.jetstack.io"),
        ("https://charts.jetstack.io", "https://charts.jetstack.io:8443"),
        ("https://example.org/charts", "https://example.org/charts-of-others"),
        ("https://example.org/charts", "https://example.org"),
        ("https://example.org/charts", "https://example.org/charts/../others"),
        ("ssh://git@example.org/charts", "https://example.org/charts"),
    ],
)
def test_a_repository_opens_no_other_url(known: str, asked: str) -> None:
    assert followed(known).find(asked, "shop") is None


def test_the_longest_url_of_the_same_project_wins() -> None:
    finder = followed("https://example.org", "https://example.org/charts")
    found = finder.find("https://example.org/charts/stable", "shop")
    assert found is not None and found.id == "https://example.org/charts"
    assert finder.find("https://example.org/charts", "bank") is None
