"""Image, compose files and units start the program as it is, with its settings and ports."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from syncagent.settings import PREFIX
from syncagent.settings import from_environment as agent_settings
from towline.cli.program import app
from towline.settings import ServeSettings, load

DEPLOY = Path(__file__).parents[3] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
COMPOSED = sorted((DEPLOY / "compose").glob("*.yaml"))
IMAGE = (DEPLOY / "Containerfile").read_text()

Json = dict[str, Any]


def stem(path: Path) -> str:
    return path.stem


def exec_form(word: str) -> list[str]:
    """The list behind the last ENTRYPOINT or CMD."""
    return yaml.safe_load(re.findall(rf"^{word} (\[.*\])$", IMAGE, re.MULTILINE)[-1])


def options_of(argv: list[str]) -> dict[str, str]:
    """The options of a `towline` command, each known to it."""
    program, command, *rest = argv
    assert program.rpartition("/")[2] == "towline"
    known = {
        option
        for one in get_command(app).commands[command].params  # ty: ignore[missing-attribute]
        for option in one.opts
    }
    given = dict(zip(rest[::2], rest[1::2], strict=True))
    assert given.keys() <= known
    return given


def from_flags(argv: list[str], environ: dict[str, str] | None = None) -> ServeSettings:
    names = {
        name[2:].replace("-", "_"): value
        for name, value in options_of(argv).items()
        if name != "--config"
    }
    return load(names, environ=environ or {})


def test_base_images_are_pinned_by_digests_without_a_default() -> None:
    """The build fails without them: a tag alone lets the registry choose the image."""
    bases = re.findall(r"^FROM (\S+)", IMAGE, re.MULTILINE)
    assert len(bases) == 5
    for base in bases:
        name = re.fullmatch(r"\$\{\w+\}@\$\{(\w+)\}", base)
        assert name and f"\nARG {name[1]}\n" in IMAGE, base


def port(where: str) -> int:
    return int(where.rpartition(":")[2])


def composed(path: Path) -> dict[str, Json]:
    return yaml.safe_load(path.read_text())["services"]


def own(services: dict[str, Json]) -> dict[str, Json]:
    """The services that run the program."""
    return {n: one for n, one in services.items() if "towline" in one["image"]}


def settings_of(one: Json) -> ServeSettings:
    """Settings of a composed service, from its image and its variables."""
    environ = {n: v for n, v in one["environment"].items() if not n.endswith("_FILE")}
    environ["TOWLINE_TLS__NAMES"] = "localhost"
    return from_flags(exec_form("ENTRYPOINT") + exec_form("CMD"), environ)


def test_the_image_needs_neither_root_nor_a_shell() -> None:
    """Its last stage runs as a number, by lists of words, and listens where it says."""
    last = IMAGE.rpartition("\nFROM ")[2]
    assert re.search(r"^USER 65532:65532$", last, re.MULTILINE)
    settings = from_flags(exec_form("ENTRYPOINT") + exec_form("CMD"))
    listens = (settings.listen, settings.listen_agents, settings.listen_metrics)
    (exposed,) = re.findall(r"^EXPOSE (.+)$", last, re.MULTILINE)
    assert {port(one) for one in listens} == set(map(int, exposed.split()))


def test_the_image_is_built_of_what_is_pinned() -> None:
    """Every package comes by hash from a lock file of ours, or is our own wheel."""
    installs = re.findall(r"(?:pip|npm) (?:install|ci)\b[^&\n]*", IMAGE)
    assert installs
    for one in installs:
        assert (
            "--require-hashes -r requirements" in one
            or one.startswith("npm ci")
            or ("--no-deps /wheels/" in one)
        )
    for source in re.findall(r"^COPY (?!--from)(.+)$", IMAGE, re.MULTILINE):
        for name in source.split()[:-1]:
            assert (DEPLOY.parent / name).exists(), name


@pytest.mark.parametrize("path", COMPOSED, ids=stem)
def test_composed_services_start_the_program(path: Path) -> None:
    """Their settings are read, files of secrets are there, ports are those that listen."""
    document = yaml.safe_load(path.read_text())
    for one in own(composed(path)).values():
        settings = settings_of(one)
        brought = {secret["target"] for secret in one.get("secrets", ())}
        files = {v for n, v in one["environment"].items() if n.endswith("_FILE")}
        assert files <= brought
        assert {secret["source"] for secret in one.get("secrets", ())} <= set(
            document.get("secrets", ())
        )
        assert one["read_only"] is True and one["cap_drop"] == ["ALL"] and one["tmpfs"] == ["/tmp"]
        assert any(v.endswith(f":{settings.data}") for v in one["volumes"])
        inside = {port(text) for text in one.get("ports", ())}
        assert inside <= {
            port(where)
            for where in (settings.listen, settings.listen_agents, settings.listen_metrics)
        }


def test_composed_replicas_know_each_other() -> None:
    """Each is reached under its own name, and trusts the balancer, which knows them all."""
    services = composed(DEPLOY / "compose" / "scaled.yaml")
    address = services["balancer"]["networks"]["default"]["ipv4_address"]
    balancer = (DEPLOY / "compose" / "haproxy.cfg").read_text()
    names = set()
    for name, one in own(services).items():
        settings = settings_of(one)
        assert settings.replica_address == f"{name}:{port(settings.listen_replicas)}"
        assert settings.git.peers.address == f"{name}:{port(settings.listen_peers)}"
        names.add(settings.git.peers.name)
        for where in (settings.listen, settings.listen_agents):
            (server,) = re.findall(rf"^.* {name}:{port(where)} check .*$", balancer, re.MULTILINE)
            assert settings.proxy_protocol == (address,) and " send-proxy-v2" in server
    assert len(names) == 2


@pytest.mark.parametrize("path", UNITS, ids=stem)
def test_units_start_the_program(path: Path) -> None:
    """The command, its options and variables are the program's; its folder is the unit's."""
    unit = path.read_text()
    (line,) = re.findall(r"^ExecStart=(.+)$", unit, re.MULTILINE)
    options = options_of(shlex.split(line))
    given = dict(re.findall(rf"^Environment=({PREFIX}\w+)=(.+)$", unit, re.MULTILINE))
    data = options.get("--data") or given[f"{PREFIX}STATE_DIRECTORY"]
    assert f"StateDirectory={Path(data).name}\n" in unit
    if given:
        token = given.pop(f"{PREFIX}HUB_TOKEN_FILE")
        assert token.startswith("%d/") and f"LoadCredential={token[3:]}:" in unit
        agent_settings(
            given | {f"{PREFIX}HUB_ADDRESS": "https://a:1", f"{PREFIX}HUB_TOKEN": "twa_x"}
        )


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd here")
def test_systemd_has_no_complaint(tmp_path: Path) -> None:
    """About any line of the units; the program is another one, which is there."""
    copies = []
    for path in UNITS:
        copy = tmp_path / path.name
        text = path.read_text().replace("/opt/towline/bin/towline", "/bin/true")
        copy.write_text(text)
        copies.append(copy)
    done = subprocess.run(
        ["systemd-analyze", "verify", *copies], capture_output=True, text=True, check=False
    )
    ours = [line for line in done.stderr.splitlines() if str(tmp_path) in line]
    assert done.returncode == 0 and ours == []
