"""Words of `towline label`."""

import pytest

from core.errors import Invalid
from towline.cli.manifests.labels import apply_label_changes


def test_labels_are_set_and_removed() -> None:
    assert apply_label_changes(
        {"team": "a", "old": "x"}, ["tier=web", "team=b=c", "old-", "none-"]
    ) == {
        "team": "b=c",
        "tier": "web",
    }


@pytest.mark.parametrize("word", ["team", "=a", "-", ""])
def test_other_words_are_refused(word: str) -> None:
    with pytest.raises(Invalid, match="NAME=VALUE nor NAME-"):
        apply_label_changes({}, [word])
