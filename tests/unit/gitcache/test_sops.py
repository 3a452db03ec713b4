"""SOPS files: what is written by the format's rules opens, and what was altered does not.

The writer is the test's own, by the published description of the format.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core import patterns
from core.age import AgeIdentity
from core.errors import Invalid
from core.identity import DEFAULT_PROJECT, RepositoryId
from core.spec.source import RepositorySpec
from gitcache.decrypt import sops
from gitcache.decrypt.keys import SopsDecryptor
from tests.fakes.sops import IDENTITY, MODIFIED, go_float, sealed
from tests.fakes.sops import metadata as about

CANARY = "canary-71ac-of-sops"


def written(tree: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """A tree as SOPS writes it; keys that end in `_unencrypted` stay readable."""
    code = hashlib.sha512()
    if metadata.get("mac_only_encrypted"):
        code.update(hashlib.sha256(b"sops").digest())

    def walk(value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, dict):
            return {key: walk(one, (*path, key)) for key, one in value.items()}
        if isinstance(value, list):
            return [walk(one, path) for one in value]
        if value is None:
            return None
        is_open = any(one.endswith("_unencrypted") for one in path)
        if not is_open or not metadata.get("mac_only_encrypted"):
            code.update((go_float(value) if isinstance(value, float) else str(value)).encode())
        if is_open or value == "":
            return value
        return sealed(value, "".join(f"{one}:" for one in path))

    body = walk(tree, ())
    return {**body, "sops": about(code.hexdigest().upper(), **metadata)}


def opened(document: dict[str, Any], name: str = "x.yaml") -> Any:
    data = yaml.safe_dump(document, sort_keys=False).encode()
    return json.loads(sops.decrypt(data, name, [IDENTITY]))


TREE = {
    "apiVersion": "v1",
    "kind": "Secret",
    "stringData": {"password": CANARY, "port": "5432", "on_unencrypted": "yes"},
    "list": [1, {"deep": True}, ["x", -2]],
    "nothing": None,
    "empty": "",
    "number": 1.5,
    "size_unencrypted": 3,
}


@pytest.mark.parametrize("metadata", [{}, {"mac_only_encrypted": True}], ids=["all", "only"])
def test_a_file_comes_out_as_it_went_in(metadata: dict[str, Any]) -> None:
    document = written(TREE, **metadata)
    assert CANARY not in json.dumps(document)
    assert opened(document) == TREE


def test_files_of_json_and_without_structure_open_too() -> None:
    as_json = json.dumps(written({"a": "b"})).encode()
    assert json.loads(sops.decrypt(as_json, "x.json", [IDENTITY])) == {"a": "b"}
    binary = json.dumps(written({"data": "key=value\n"})).encode()
    assert sops.decrypt(binary, "x.env", [IDENTITY]) == b"key=value\n"


def folded(about: dict[str, Any]) -> dict[str, str]:
    """Metadata as files of lines have them, newlines written out."""
    plain = {key: str(value) for key, value in about.items() if key != "age"}
    for number, one in enumerate(about["age"]):
        plain |= {f"age__list_{number}__map_{key}": value for key, value in one.items()}
    return {key: value.replace("\n", "\\n") for key, value in plain.items()}


def test_files_of_dotenv_come_out_as_they_went_in() -> None:
    """A line a value, newlines written out, comments passed over."""
    document = written({"PASSWORD": CANARY, "TEXT": "a\nb", "NOTE_unencrypted": "x=y", "NONE": ""})
    about = {f"sops_{key}": value for key, value in folded(document.pop("sops")).items()}
    lines = ["# of the shop", *(f"{key}={value}" for key, value in (document | about).items())]
    data = "\n".join(lines).encode()
    assert CANARY.encode() not in data and sops.is_encrypted(data)
    clear = f"PASSWORD={CANARY}\nTEXT=a\\nb\nNOTE_unencrypted=x=y\nNONE=\n"
    assert sops.decrypt(data, "deploy/.env", [IDENTITY]).decode() == clear


def test_files_of_ini_come_out_as_they_went_in() -> None:
    """Sections are the first level; what stands before them is in one of its own."""
    tree = {"DEFAULT": {"mode": "live"}, "db": {"password": CANARY, "hint": "a;b"}}
    document = written(tree)
    lines = [f"mode = {document['DEFAULT']['mode']}", "; of the shop", "[db]"]
    lines += [f"{key:9}= {value}" for key, value in document["db"].items()]
    lines += ["[sops]", *(f"{key} = {value}" for key, value in folded(document["sops"]).items())]
    clear = f"mode = live\n[db]\npassword = {CANARY}\nhint = `a;b`\n"
    data = "\n".join(lines).encode()
    assert sops.decrypt(data, "app.ini", [IDENTITY]).decode() == clear


@pytest.mark.parametrize("quote", ['"', "'", "`", '"""'])
def test_values_of_ini_may_be_quoted_and_sections_empty(quote: str) -> None:
    document = written({"db": {"password": CANARY, "mode_unencrypted": "a b"}, "none": {}})
    lines = ["[db]", *(f"{key} = {quote}{value}{quote}" for key, value in document["db"].items())]
    lines += ["[none]", "[sops]"]
    lines += [f"{key} = {value}" for key, value in folded(document["sops"]).items()]
    clear = f"[db]\npassword = {CANARY}\nmode_unencrypted = a b\n[none]\n"
    assert sops.decrypt("\n".join(lines).encode(), "app.ini", [IDENTITY]).decode() == clear


def test_only_values_of_one_text_are_a_binary_file() -> None:
    for tree in ({"data": "a", "more": "b"}, {"data": 1}, {"text": "a"}):
        with pytest.raises(Invalid, match="only YAML, JSON, dotenv, INI and binary files"):
            sops.decrypt(json.dumps(written(tree)).encode(), "x.bin", [IDENTITY])


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (".env", lambda lines: [lines[1], lines[0], *lines[2:]], "code is wrong"),
        (".env", lambda lines: [lines[0].replace("A=", "C="), *lines[1:]], "altered or moved"),
        (".env", lambda lines: ["A=open", *lines[1:]], "is not encrypted"),
        (".env", lambda lines: ["words", *lines], "line 1 has no ="),
        (".env", lambda lines: lines[:2], "incomplete"),
        (".env", lambda lines: [*lines, "sops_key_groups__list_0__map_x=y"], "key groups"),
        (".env", lambda lines: [*lines, "sops_shamir_threshold=2"], "key groups"),
        (".ini", lambda lines: ["words", *lines], "neither = nor :"),
    ],
)
def test_lines_that_were_altered_do_not_open(name: str, change: Any, said: str) -> None:
    """Moved, renamed, put in the clear, cut off: each error contains no value."""
    document = written({"A": CANARY, "B": "b"})
    about = {f"sops_{key}": value for key, value in folded(document.pop("sops")).items()}
    lines = change([f"{key}={value}" for key, value in (document | about).items()])
    with pytest.raises(Invalid, match=said) as raised:
        sops.decrypt("\n".join(lines).encode(), name, [IDENTITY])
    assert CANARY not in str(raised.value)


@pytest.mark.parametrize("name", [".env", "x.ini"])
def test_numbers_of_lines_come_out_as_they_were_written(name: str) -> None:
    """Nobody sealed the type of a value."""
    tree: dict[str, Any] = {"A": 1, "B": True}
    document = written(tree if name == ".env" else {"DEFAULT": tree})
    about = folded(document.pop("sops"))
    if name == ".env":
        lines = [f"{key}={value}" for key, value in document.items()]
        lines += [f"sops_{key}={value}" for key, value in about.items()]
        lines.append(f"sops_age__list_{'9' * 5000}__map_enc=x")
        clear = b"A=1\nB=True\n"
    else:
        lines = [f"{key} = {value}" for key, value in document["DEFAULT"].items()]
        lines += ["[sops]", *(f"{key} = {value}" for key, value in about.items())]
        clear = b"A = 1\nB = True\n"
    assert sops.decrypt("\n".join(lines).encode(), name, [IDENTITY]) == clear


@pytest.mark.parametrize("name", ["x.json", "x.yaml"])
def test_a_number_that_is_too_long_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="it is no"):
        sops.decrypt(b'{"a": ' + b"1" * 5000 + b"}", name, [IDENTITY])


@given(st.text(max_size=200), st.sampled_from((".env", ".ini")))
def test_any_lines_are_opened_or_refused(text: str, name: str) -> None:
    with pytest.raises(Invalid):
        sops.decrypt(text.encode(), name, [IDENTITY])


def test_all_documents_of_a_file_are_opened_under_one_code() -> None:
    """The metadata stand in each; the code is that of all values in their order."""
    code = hashlib.sha512(b"12").hexdigest().upper()
    about = written({})["sops"] | {"mac": sealed(code, MODIFIED)}
    text = yaml.safe_dump_all([{"a": sealed("1", "a:"), "sops": about}, {"b": sealed("2", "b:")}])
    found = list(yaml.safe_load_all(sops.decrypt(text.encode(), "x.yml", [IDENTITY])))
    assert found == [{"a": "1"}, {"b": "2"}]


JSON = st.recursive(
    st.text(st.characters(codec="utf-8", exclude_categories=("C",)))
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.sampled_from([0.5, -2.25, 1.0, 1000000.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc_", min_size=1), inner),
    max_leaves=8,
)
TREES = st.dictionaries(st.text("abcdef", min_size=1), JSON, min_size=1, max_size=4)


@given(TREES)
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
def test_every_tree_comes_back(tree: dict[str, Any]) -> None:
    data = json.dumps(written(tree)).encode()
    assert json.loads(sops.decrypt(data, "x.json", [IDENTITY])) == tree


@given(st.data())
@settings(max_examples=60)
def test_altered_sops_documents_are_refused(data: st.DataObject) -> None:
    """A value changed, moved, removed or put in the clear; the message shows none."""
    tree = {"a": CANARY, "b": "other", "c_unencrypted": "seen", "d": [1, 2]}
    document = written(tree)
    how = data.draw(st.sampled_from(["swap", "drop", "clear", "bit", "open", "add", "time"]))
    if how == "swap":
        document["a"], document["b"] = document["b"], document["a"]
    elif how == "drop":
        del document[data.draw(st.sampled_from(["a", "b", "c_unencrypted", "d"]))]
    elif how == "clear":
        document["a"] = "in the clear"
    elif how == "bit":
        middle = len("ENC[AES256_GCM,data:") + 2
        flipped = "A" if document["a"][middle] != "A" else "B"
        document["a"] = document["a"][:middle] + flipped + document["a"][middle + 1 :]
    elif how == "open":
        document["c_unencrypted"] = "not seen"
    elif how == "add":
        document["e_unencrypted"] = "new"
    else:
        document["sops"]["lastmodified"] = "2027-01-01T00:00:00Z"
    with pytest.raises(Invalid) as refused:
        opened(document)
    assert CANARY not in refused.value.message


@given(st.binary(max_size=200) | st.text().map(str.encode))
def test_any_bytes_are_refused_or_opened_but_never_break(data: bytes) -> None:
    for name in ("x.yaml", "x.json", "x"):
        with pytest.raises(Invalid):
            sops.decrypt(data, name, [IDENTITY])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"age": []}, "no age recipient"),
        ({"age": [{"recipient": "age1x", "enc": "x"}]}, "age1x"),
        ({"age": [{"recipient": IDENTITY.recipient, "enc": "x"}]}, "cannot decrypt"),
        ({"age": [{"recipient": IDENTITY.recipient, "enc": "x" * 3000}]}, "oversized key"),
        ({"mac": ""}, "edited without sops"),
        ({"mac": None}, "not encrypted"),
        ({"shamir_threshold": 2}, "key groups"),
        ({"encrypted_regex": "["}, "regular expression"),
        ({"encrypted_regex": "(?=a)"}, "regular expression"),
        ({"encrypted_regex": "x{1000}{1000}"}, "regular expression"),
        ({"encrypted_regex": ".{600}"}, "too complex"),
        ({"encrypted_regex": "a", "encrypted_suffix": "b"}, "exclude"),
        ({"encrypted_comment_regex": "a"}, "not supported"),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),
)
def test_metadata_that_cannot_be_are_named(change: dict[str, Any], why: str) -> None:
    document = written({"a": "b"})
    document["sops"] |= change
    with pytest.raises(Invalid, match=why):
        opened(document)


def test_aliases_and_huge_files_are_refused() -> None:
    bomb = b"a: &a [x]\nb: *a\nsops: {mac: 'ENC[AES256_GCM,'}\n"
    with pytest.raises(Invalid, match="aliases"):
        sops.decrypt(bomb, "x.yaml", [IDENTITY])
    with pytest.raises(Invalid, match="limit|at most"):
        sops.decrypt(b" " * (sops.MAX_FILE_BYTES + 1), "x.yaml", [IDENTITY])


@pytest.mark.parametrize(
    ("rules", "path", "encrypts"),
    [
        ({}, ("a", "b"), True),
        ({}, ("a_unencrypted", "b"), False),
        ({"encrypted_regex": "^(data|stringData)$"}, ("stringData", "x"), True),
        ({"encrypted_regex": "^(data|stringData)$"}, ("metadata", "x"), False),
        ({"unencrypted_regex": "^meta"}, ("metadata", "x"), False),
        ({"encrypted_regex": "^(.*[sS]ecret.*?|to?ken)$"}, ("my-secret",), True),
        ({"encrypted_suffix": "_secret"}, ("a_secret",), True),
        ({"encrypted_suffix": "_secret"}, ("a",), False),
        ({"unencrypted_suffix": "_x"}, ("a_unencrypted",), True),
    ],
)
def test_rules_say_what_is_encrypted(
    rules: dict[str, str], path: tuple[str, ...], encrypts: bool
) -> None:
    metadata = sops.SopsMetadata("", "", {}, rules, False)
    named = any(metadata.matches_rule(one, patterns.search_pattern) for one in path)
    assert metadata.is_encrypted(matches=named) is encrypts


@pytest.mark.parametrize(
    ("tree", "rules"),
    [
        ({"data": {"a": {"b": "x"}, "l": [{"c": "y"}]}}, {"encrypted_regex": "^data$"}),
        ({"meta_unencrypted": {"a": {"b": "x"}}, "c": "y"}, {}),
    ],
)
def test_a_rule_covers_all_that_is_below_a_key(tree: dict[str, Any], rules: dict[str, str]) -> None:
    assert opened(written(tree, **rules)) == tree


def test_trees_have_a_largest_depth() -> None:
    tree: dict[str, Any] = {"a": "b"}
    for _ in range(62):
        tree = {"a": tree}
    assert opened(written(tree)) == tree
    with pytest.raises(Invalid, match="more than 64 levels"):
        opened(written({"a": {"a": tree}}))


@pytest.mark.timeout(20)
def test_no_rule_can_hold_its_reader_up() -> None:
    """Python's own engine would be at it for minutes."""
    document = written({"a" * 200: "secret"}, unencrypted_regex="a*a*a*a*b")
    assert opened(document) == {"a" * 200: "secret"}


def test_a_key_too_long_for_any_rule_is_refused() -> None:
    """A regular expression goes through each character: no file may keep a thread for seconds."""
    long = "a" * (patterns.MAX_TEXT_LENGTH + 1)
    with pytest.raises(Invalid, match="65537 characters; at most 65536 can be matched"):
        opened(written({long: "secret"}, unencrypted_regex="^b"))


async def test_each_project_has_keys_of_its_own(tmp_path: Path) -> None:
    """Another project's does not open the file; one without keys leaves it as it lies."""
    other = AgeIdentity.generate()
    (tmp_path / "p1.agekey").write_text(f"# of p1\n{IDENTITY.text}\n")
    (tmp_path / "default.agekey").write_text(other.text)
    decryptor = SopsDecryptor(tmp_path)
    data = yaml.safe_dump(written({"a": CANARY})).encode()

    def of(project: str) -> RepositorySpec:
        return RepositorySpec(RepositoryId("r"), "https://x", frozenset(), project=project)

    assert decryptor.is_encrypted("x.yaml", data) and not decryptor.is_encrypted("x", b"a: b")
    assert json.loads(await decryptor.decrypt(of("p1"), "x.yaml", data)) == {"a": CANARY}
    with pytest.raises(Invalid, match="x.yaml cannot be decrypted: it is encrypted for age1"):
        await decryptor.decrypt(of(DEFAULT_PROJECT), "x.yaml", data)
    assert await decryptor.decrypt(of("p2"), "x.yaml", data) == data
    names = [decryptor.key_fingerprint(of(one)) for one in ("p1", DEFAULT_PROJECT, "p2")]
    assert len(set(names)) == 3 and names[2] == ""
    assert not any(re.search("age|AGE", one) for one in names)
