"""Text that users may give."""

import pytest

from controlplane.pipelines.model.pipeline import Pipeline, Stage, StageId, validate
from controlplane.platform.names import check_text
from core.errors import Invalid
from core.identity import ServiceId

DECEPTIVE = ["\0", "\n", "\x1b", "\x7f", "\x85", "\x9b", "\u200e", "\u200f", "\u202e", "\u2066"]


@pytest.mark.parametrize("char", DECEPTIVE)
def test_text_with_controls_or_turned_direction_is_refused(char: str) -> None:
    with pytest.raises(Invalid, match="name: must not contain control characters"):
        check_text(f"prod{char}uction", "name")


@pytest.mark.parametrize("text", ["Prod", "prod – eu", "生产", "إنتاج", "🚀", "e\u0301"])
def test_text_of_any_language_passes(text: str) -> None:
    assert check_text(text, "name") == text


@pytest.mark.parametrize("name", ["de\u202ev", "dev\x9b2J", "x" * 256, " "])
def test_pipelines_and_stages_have_names_of_the_same_kind(name: str) -> None:
    stage = Stage(StageId("s"), name, (ServiceId("web"),))
    with pytest.raises(Invalid, match=r"stages\[0\].name: "):
        validate(Pipeline("p", "shop", (stage,)))
    with pytest.raises(Invalid, match="^name: "):
        validate(Pipeline("p", name, (Stage(StageId("s"), "dev", (ServiceId("web"),)),)))
