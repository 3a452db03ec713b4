"""The search language, versions of images, and the order of names that fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.search.model import (
    Key,
    NamedItem,
    NamedItemKind,
    is_like,
    parse_search,
    rank_by_name,
    removed_by,
    version_of,
)
from core.errors import Invalid
from core.spec.images import split_image

VERSIONS = [
    *("1.2.3-alpha1", "1.2.3-rc1", "1.2.3-rc2", "1.2.3", "1.2.3-alpine", "1.2.3.1", "1.2.10"),
    *("1.10", "2.0.0", "10.1"),
]


def test_terms_of_a_key_are_alternatives() -> None:
    asked = parse_search(
        'payments kind:Pod kind:Job ns:shop image:log4j<2.17 label:"a b=c d" health:failed'
    )
    assert asked.words == ("payments",)
    assert asked.terms == {
        Key.KIND: ("Pod", "Job"),
        Key.NAMESPACE: ("shop",),
        Key.LABEL: ("a b=c d",),
        Key.HEALTH: ("FAILED",),
    }
    (image,) = asked.images
    assert (image.name, image.operator, image.version) == ("log4j", "<", "2.17")


def test_quotes_make_a_word_of_a_term() -> None:
    search = parse_search('"kind:Pod" kind:"Pod"')
    assert (search.words, search.terms) == (("kind:Pod",), {Key.KIND: ("Pod",)})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty search"),
        ("colour:red", "'colour' is not a search key: use kind, name"),
        ("kind:", "kind: needs a value"),
        ("health:ill", "one of running, pending, failed, paused"),
        ("image:<2", "not like image:log4j<2.17"),
        ("deprecated:2.0", "a release like 1.32"),
        ("x " * 21, "must have at most 20 terms, not 21"),
        ("x" * 501, "at most 500 characters, not 501"),
    ],
)
def test_an_invalid_search_names_the_mistake(text: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        parse_search(text)


@given(st.text(max_size=80))
def test_any_text_is_understood_or_refused_as_invalid(text: str) -> None:
    try:
        asked = parse_search(text)
    except Invalid:
        return
    assert asked.words or asked.terms or asked.images


@given(st.lists(st.from_regex(r"[a-z0-9.-]{1,12}", fullmatch=True), min_size=1, max_size=10))
def test_plain_words_come_back(words: list[str]) -> None:
    assert parse_search(" ".join(words)).words == tuple(words)


def test_versions_sort_as_people_expect() -> None:
    assert sorted(reversed(VERSIONS), key=version_of) == VERSIONS
    assert version_of("v1.2.0") == version_of("1.2") and version_of("latest") == ()


def test_only_the_first_parts_and_digits_of_a_version_count() -> None:
    """A tag of many digits must not take the search's time."""
    assert version_of("1.2.3.4.5.6.7.8.9") == version_of("1.2.3.4.5.6.7.8")
    assert version_of("9" * 5_000) == version_of("9" * 18)


@given(st.text(max_size=30), st.text(max_size=30))
def test_versions_always_compare(one: str, other: str) -> None:
    assert (version_of(one) < version_of(other)) or (version_of(one) >= version_of(other))


@pytest.mark.parametrize(
    ("image", "term", "is_meant"),
    [
        ("registry:5000/apache/log4j:2.16.0", "image:log4j<2.17", True),
        ("registry:5000/apache/log4j:2.17.0", "image:log4j<2.17", False),
        ("log4j:2.17-rc1", "image:log4j<2.17", True),
        ("apache/log4j-core:2.1", "image:log4j<2.17", False),
        ("apache/log4j-core:2.1", "image:log4j*<2.17", True),
        ("log4j:latest", "image:log4j<2.17", False),
        ("nginx@sha256:00", "image:nginx", True),
        ("nginx:latest", "image:nginx:latest", True),
        ("nginx:latest", "image:nginx=stable", False),
        ("nginx:1.25", "image:nginx=1.26", False),
        ("docker.io/library/nginx:1.25", "image:nginx:1.25", True),
        ("docker.io/library/nginx:1.25.1", "image:library/nginx>=1.25", True),
        ("Nginx:1.25", "image:NGINX=v1.25.0", True),
    ],
)
def test_images_by_name_and_version(image: str, term: str, is_meant: bool) -> None:
    (asked,) = parse_search(term).images
    assert asked.matches(*split_image(image.lower())) is is_meant


def test_patterns_have_one_wildcard_sign() -> None:
    assert is_like("web-a.b", "WEB-*") and not is_like("web-axb", "web-a.b")
    assert is_like("a?[b]\nc", "a?[b]*") and not is_like("ab", "a?")


@pytest.mark.timeout(20)
def test_many_wildcards_do_not_hold_the_search_up() -> None:
    assert not is_like("a" * 253, "*a" * 100 + "*b")


def test_removed_apis_grow_with_releases() -> None:
    assert set(removed_by("1.22")) < set(removed_by("1.25")) < set(removed_by("yes"))
    assert ("batch", "v1beta1", "CronJob") not in removed_by("1.24")
    assert ("batch", "v1beta1", "CronJob") in removed_by("1.25")


@given(st.lists(st.from_regex(r"[a-z]{1,3}(-[a-z]{1,3}){0,2}", fullmatch=True), min_size=1))
def test_the_name_itself_comes_first(names: list[str]) -> None:
    places = [NamedItem(NamedItemKind.SERVICE, str(i), name) for i, name in enumerate(names)]
    assert rank_by_name(places, names[-1].upper(), 5)[0].name == names[-1]


def test_names_sort_by_the_place_of_the_text_in_them() -> None:
    """The whole name, its beginning, the beginning of a word, then anywhere; shorter ones first."""
    names = ["pay", "payments", "eu-pay", "eu-payments", "repay", "prepaying"]
    places = [NamedItem(NamedItemKind.SERVICE, name, name) for name in reversed(names)]
    assert [place.name for place in rank_by_name(places, "Pay", 10)] == names
    assert [place.name for place in rank_by_name(places, "Pay", 2)] == names[:2]


def test_a_path_names_the_cluster_of_a_service() -> None:
    places = [
        NamedItem(NamedItemKind.SERVICE, "1", "web", "dev-eu"),
        NamedItem(NamedItemKind.SERVICE, "2", "web", "eu"),
        NamedItem(NamedItemKind.SERVICE, "3", "eu-web", "dev"),
    ]
    assert [place.id for place in rank_by_name(places, "eu/web", 10)] == ["2", "1", "3"]
    assert [place.id for place in rank_by_name(places, "web", 10)] == ["1", "2", "3"]
