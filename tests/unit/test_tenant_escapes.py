"""The page of hostile tenants shows all of them."""

from tests.integration.tenants.corpus import allowed, escapes
from tests.integration.tenants.table import PAGE, page


def test_the_page_shows_the_corpus() -> None:
    """`python -m tests.integration.tenants.table` writes the page anew."""
    assert PAGE.read_text() == page()


def test_there_are_enough_attempts_with_names_of_their_own() -> None:
    names = [case.name for case in (*escapes(), *allowed())]
    assert len(names) == len(set(names)) and len(escapes()) >= 100
