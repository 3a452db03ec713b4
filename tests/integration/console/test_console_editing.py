"""Journeys through what is changed: secrets, and values that flow; by keyboard where a person
would."""

import re

import pytest
from playwright.sync_api import expect

from tests.integration.console.conftest import Desk
from tests.integration.console.furnished import furnish
from towline.demo.story import Story

pytestmark = pytest.mark.timeout(240)


def test_a_secret_is_sealed_rotated_and_never_shown(ada: Desk, story: Story) -> None:
    """Its value goes in and does not come back; the rotation moves on the page by itself."""
    made = furnish(story)
    page = ada.go("/secrets")
    page.get_by_role("link", name="db-password").press("Enter")
    page.get_by_role("button", name="New version").press("Enter")
    page.get_by_role("textbox", name=re.compile("^Value")).fill("not-to-be-seen-2")
    page.get_by_role("spinbutton", name=re.compile("^Healthy for")).fill("0")
    page.get_by_role("button", name="Begin the rotation").press("Enter")
    rotation = page.get_by_role("region", name="Rotation")
    expect(rotation).to_contain_text("1 → 2")
    expect(page.get_by_role("region", name="Who uses it")).to_contain_text("shop")
    expect(rotation).to_contain_text("Waits for a person", timeout=90_000)
    rotation.get_by_role("button", name="Destroy the old version").press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill("db-password")
    dialog.get_by_role("button", name="Destroy it").press("Enter")
    expect(rotation).to_contain_text("Done")
    expect(page.get_by_role("region", name="Versions")).to_contain_text("Destroyed")
    assert "not-to-be-seen-2" not in page.content()
    story.stage.ask(
        "mutation ($s: ID!) { useSecrets(serviceId: $s, uses: []) { id } }",
        s=story.services["dev"],
    )
    story.stage.ask("mutation ($s: ID!) { deleteSecret(id: $s) { id } }", s=made.secret)


def test_values_say_where_they_come_from_and_whom_they_reach(ada: Desk, story: Story) -> None:
    """The graph and the words beside it; what is written is checked before it is sent."""
    furnish(story)
    page = ada.go(f"/services/{story.services['prod']}?tab=values")
    imports = page.get_by_role("region", name="Imports")
    expect(imports).to_contain_text("imports.upstream")
    expect(imports).to_contain_text("shop.example.org")
    expect(page.locator(".react-flow__node")).to_have_count(2)
    imports.get_by_role("link", name="address").press("Enter")
    expect(page.get_by_text("A change of what it exports reaches")).to_be_visible()
    expect(page.get_by_role("region", name="Exports")).to_contain_text("8080")
    page.get_by_role("button", name=re.compile("^Change what it exports")).press("Enter")
    editor = page.locator(".cm-content")
    editor.click()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text("exportz: []\n")
    expect(page.get_by_text("exportz: nothing is called so")).to_be_visible()
    expect(page.get_by_role("button", name="Save")).to_be_disabled()


def test_the_keys_are_told_and_lead_where_they_say(ada: Desk, story: Story) -> None:
    """`?` shows every page's key; each key goes there, and the way back is right."""
    page = ada.go("/")
    page.get_by_role("heading", name="Fleet").wait_for()
    page.keyboard.press("?")
    help_ = page.get_by_role("dialog", name="Keys")
    expect(help_).to_contain_text("g e")
    page.keyboard.press("Escape")
    for key, title in (("e", "Secrets"), ("x", "Contexts"), ("i", "Access")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page.get_by_role("heading", name=title, level=1)).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Contexts", level=1)).to_be_visible()
