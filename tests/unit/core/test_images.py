"""Names of images have a registry with or without port, a tag and a digest."""

from hypothesis import given, settings
from hypothesis import strategies as st

from core.spec.images import split_image


@settings(max_examples=40)
@given(
    st.from_regex(r"[a-z]{1,5}(:5000)?(/[a-z]{1,5}){1,2}", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,9}", fullmatch=True),
    st.booleans(),
)
def test_images_are_taken_apart(name: str, tag: str, pinned: bool) -> None:
    digest = "@sha256:" + "a" * 64 if pinned else ""
    assert split_image(f"{name}:{tag}{digest}") == (name, tag)
    assert split_image(f"{name}{digest}") == (name, "")
