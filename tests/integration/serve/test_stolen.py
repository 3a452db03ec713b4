"""A stolen database without its key."""

import base64
import shutil
from pathlib import Path

from tests.integration.serve.conftest import running
from tests.integration.serve.test_start import refused

PASSWORD, HOOK = "canary-7e1f-password", "canary-7e1f-hook"
TOKEN = 'mutation { createAccessToken(attributes: {name: "laptop"}) { token } }'


async def test_a_stolen_database_alone_opens_nothing(tmp_path: Path) -> None:
    """No token and no secret is in its bytes, and no control plane starts with it."""
    data, thief = tmp_path / "data", tmp_path / "thief"
    async with running(data) as hub:
        made = await hub.cluster()
        url = "https://git.example.org/private.git"
        await hub.repository(url, username="bot", password=PASSWORD, webhookSecret=HOOK)
        token = (await hub.ask(TOKEN))["createAccessToken"]["token"]
        secrets = [PASSWORD, HOOK, token, hub.token, made["deployToken"]]
    thief.mkdir()
    stored = b""
    for file in data.glob("towline.db*"):
        stored += file.read_bytes()
        shutil.copy(file, thief)
    assert url.encode() in stored
    for plain in map(str.encode, secrets):
        # Without its ends, which depend on what stands beside it.
        assert plain not in stored and base64.b64encode(plain)[:-4] not in stored
    assert "another key" in refused(thief)
