"""The agent's doctor beside its network checks: a freeze."""

import json
from pathlib import Path

from core.spec.statements.attestation import read_public_keys
from core.spec.statements.freeze import FreezeKeys
from syncagent.autonomy.freeze import FreezeSwitch
from tests.fakes.clock import START, FakeClock
from towline import freeze_key
from towline.agent import diagnose


class NoAnswers:
    """Takes the answers to commands."""

    def done(self, done: object) -> None: ...


async def test_the_doctor_shows_a_freeze(tmp_path: Path) -> None:
    """From the state directory, whether or not the control plane can be reached."""
    key, pinned, kubeconfig = (tmp_path / name for name in ("key", "freeze.pem", "kubeconfig"))
    pinned.write_text(freeze_key.create(key))
    cluster, user = {"server": "http://127.0.0.1:1"}, {"token": "t"}
    context = {"cluster": "c", "user": "u"}
    kubeconfig.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "x", "context": context}],
                "current-context": "x",
            }
        )
    )
    environ = {
        "TOWLINE_AGENT_HUB_ADDRESS": "http://127.0.0.1:1",
        "TOWLINE_AGENT_HUB_TOKEN": "twa_x",
        "TOWLINE_AGENT_KUBERNETES_KUBECONFIG": str(kubeconfig),
        "TOWLINE_AGENT_STATE_DIRECTORY": str(tmp_path),
        "TOWLINE_AGENT_FREEZE_KEYS": str(pinned),
    }
    shown = dict[str, tuple[bool, str]]()

    def show(good: bool, needed: bool, step: str, text: str) -> None:
        shown[step] = good, text

    await diagnose(environ, show)
    assert shown["freeze"] == (True, "not frozen")
    keys = FreezeKeys(read_public_keys(pinned.read_bytes()))
    switch = FreezeSwitch(keys, "", tmp_path / "freeze", FakeClock(), NoAnswers())
    switch.obey(freeze_key.sign(key, "freeze", ["*"], START, reason="stolen token"))
    await diagnose(environ, show)
    good, text = shown["freeze"]
    assert not good and "stolen token" in text
