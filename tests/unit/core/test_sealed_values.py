"""A sealed value of a manifest opens in one installation, project and name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from core.sealed_values import open_value, seal_value
from core.sealing import SealingKey

KEY, OTHER = SealingKey.from_bytes(b"a" * 32), SealingKey.from_bytes(b"b" * 32)


@given(st.binary(max_size=2000))
def test_a_value_opens_only_under_its_own_name(plain: bytes) -> None:
    sealed = seal_value(KEY.public, "shop", "db", plain)
    assert open_value(KEY, sealed, "shop", "db") == plain
    for project, name in (("shop", "other"), ("other", "db"), ("db", "shop"), ("shop\0db", "")):
        with pytest.raises(Invalid, match="was not sealed for the secret"):
            open_value(KEY, sealed, project, name)
    with pytest.raises(Invalid, match="was sealed for the key"):
        open_value(OTHER, sealed, "shop", "db")


@pytest.mark.parametrize("text", ["", "v1", "v1.", "v1.x.", "v2.x.AA==", "hunter2"])
def test_a_text_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="is no sealed value"):
        open_value(KEY, text, "shop", "db")


def test_an_altered_value_is_refused_without_its_content() -> None:
    head, dot, box = seal_value(KEY.public, "shop", "db", b"canary-51c2-otter").rpartition(".")
    for altered in (box[:-8], f"{'A' * 8}{box[8:]}", "ä", "****"):
        with pytest.raises(Invalid, match="was not sealed") as error:
            open_value(KEY, head + dot + altered, "shop", "db")
        assert "canary" not in str(error.value)
