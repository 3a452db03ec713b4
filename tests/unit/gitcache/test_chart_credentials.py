"""The account that opens a chart repository."""

import pytest

from core.identity import RepositoryId
from core.spec.source import GitCredentials, RepositoryKind, RepositorySpec
from gitcache.charts.credentials import ChartCredentialFinder


def followed(*urls: str) -> ChartCredentialFinder:
    """Repositories with the URL as id, in project `shop`."""
    return finder(*(followed_spec(url, url) for url in urls))


def followed_spec(id: str, url: str, password: str | None = "secret") -> RepositorySpec:
    """A repository in project `shop`, with its id as user name."""
    return RepositorySpec(
        RepositoryId(id),
        url,
        frozenset(),
        GitCredentials(username=id, password=password),
        project="shop",
        kind=RepositoryKind.HELM,
    )


def finder(*specs: RepositorySpec) -> ChartCredentialFinder:
    """Accounts of these repositories."""
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


def test_of_two_repositories_with_one_url_the_same_one_wins_after_a_restart() -> None:
    first, second = (followed_spec(id, "https://example.org/charts") for id in ("a", "b"))
    for order in ([first, second], [second, first]):
        found = finder(*order).find("https://example.org/charts", "shop")
        assert found is not None and found.id == "a"


def test_a_repository_without_a_password_hides_no_account() -> None:
    account = followed_spec("a", "https://example.org")
    anonymous = followed_spec("b", "https://example.org/charts", password=None)
    found = finder(account, anonymous).find("https://example.org/charts", "shop")
    assert found is not None and found.id == "a"
