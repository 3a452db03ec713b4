"""The audit trail of a running control plane: each way in, the export, the doctor's word."""

import asyncio
import hashlib
import sqlite3

import orjson

from controlplane.authorization import DEFAULT_PROJECT, SYSTEM
from core.zstd import zstd
from tests.integration.serve.conftest import Json, Running
from tests.integration.serve.test_signing_in import PASSWORD, own, set_up
from tests.integration.serve.waiting import until
from towline.installation.tasks import CheckHealth, run_checks

HASHED = (
    *("kind", "number", "at", "actor", "actorId", "tokenId", "source", "action", "verdict"),
    *("target", "targetId", "clusterId", "projectId", "before", "after", "status", "requestId"),
    "detail",
)
LOGS = """query ($filter: AuditLogFilter) { auditLogs(filter: $filter) {
  edges { node { action verdict actor target kind } } } }"""


async def rows(hub: Running, **wanted: str) -> list[Json]:
    """Rows that fit, newest first."""
    page = (await hub.ask(LOGS, filter=wanted))["auditLogs"]
    return [edge["node"] for edge in page["edges"]]


async def export(hub: Running, **asked: str) -> tuple[int, str]:
    headers = {"authorization": f"Bearer {hub.token}"}
    url = f"{hub.url}/audit/export"
    async with hub.http.get(url, params=asked, headers=headers) as answer:
        return answer.status, await answer.text()


async def test_each_way_of_signing_in_leaves_a_row(hub: Running) -> None:
    """The setup link, a password, a wrong one, an access token, signing out."""
    async with await set_up(hub) as browser:
        form = {"email": "ada@example.org", "password": "wrong"}
        async with browser.post(f"{hub.url}/oauth/session", data=form, headers=own(hub)) as answer:
            assert answer.status == 401
        form["password"] = PASSWORD
        async with browser.post(f"{hub.url}/oauth/session", data=form, headers=own(hub)):
            pass
        csrf = {"x-towline-csrf": "1"}
        async with browser.delete(f"{hub.url}/oauth/session", headers=csrf) as answer:
            assert answer.status == 204
    found = [(one["action"], one["verdict"]) for one in await rows(hub, kind="SIGN_IN")]
    counted = {one: found.count(one) for one in set(found)}
    assert counted == {
        ("setUp", "allowed"): 1,
        ("signIn", "allowed"): 2,
        ("signIn", "refused"): 1,
        ("signOut", "allowed"): 1,
        ("useToken", "allowed"): counted["useToken", "allowed"],
    }
    assert counted["useToken", "allowed"] == 2  # The session's, and that of this test.


async def test_a_request_to_a_cluster_leaves_one_row(hub: Running) -> None:
    await hub.cluster("dev")
    headers = {"authorization": f"Bearer {hub.token}"}
    async with hub.http.get(f"{hub.url}/k8s/clusters/dev/api", headers=headers) as answer:
        assert answer.status == 503  # No agent has come.

    async def requests() -> list[Json]:
        return await rows(hub, kind="REQUEST")

    (row,) = await until(requests, bool)
    assert row["action"] == "kubernetes.get" and row["target"].startswith("dev: ")


async def test_an_export_holds_all_that_verifies_the_chain(hub: Running) -> None:
    """An export is enough to verify the audit log, without the store."""
    deps = hub.process.plane.context
    for number in range(120):  # More than a page, each in a transaction of its own.
        async with deps.store.write() as tx:
            await deps.audit(tx, SYSTEM, "createCluster", f"c{number}", f"id-{number}")
    status, text = await export(hub, kind="change")
    lines = [orjson.loads(line) for line in text.splitlines()]
    assert status == 200 and len(lines) >= 120
    (chain,) = [
        one
        for one in (await hub.ask("{ auditChains { kind number hash } }"))["auditChains"]
        if one["kind"] == "CHANGE"
    ]
    digest = ""
    for line in lines:
        content = orjson.dumps([1, *(line[name] for name in HASHED)], option=orjson.OPT_SORT_KEYS)
        digest = hashlib.sha256(digest.encode() + b"\n" + content).hexdigest()
        assert digest == line["hash"]
    assert (lines[-1]["number"], digest) == (chain["number"], chain["hash"])


async def test_an_export_is_filtered_and_asks_for_rights(hub: Running) -> None:
    await hub.cluster("dev")
    _, text = await export(hub, format="cef", action="createCluster")
    assert text.count("\n") == 1 and "|createCluster|" in text
    assert (await export(hub, since="yesterday"))[0] == 400
    assert (await export(hub, colour="red"))[0] == 400
    _, text = await export(hub, q="createClus")
    assert [orjson.loads(line)["action"] for line in text.splitlines()] == ["createCluster"]
    async with hub.http.get(f"{hub.url}/audit/export") as answer:
        assert answer.status == 401


async def test_a_session_exports_only_by_a_link_of_our_own_page(hub: Running) -> None:
    """What a browser is to save can carry no header; where the link stands, it says itself."""
    async with await set_up(hub) as browser:
        statuses = {}
        for site in ("same-origin", "same-site", "cross-site", "none", ""):
            headers = {"sec-fetch-site": site} if site else {}
            async with browser.get(f"{hub.url}/audit/export", headers=headers) as answer:
                statuses[site] = answer.status
                saved = answer.headers.get("content-disposition", "")
            assert (saved == 'attachment; filename="audit.jsonl"') is (site == "same-origin")
        assert statuses == {
            "same-origin": 200,
            **dict.fromkeys(("same-site", "cross-site", "none", ""), 401),
        }


async def test_the_doctor_names_the_first_broken_row(hub: Running) -> None:
    """The owner of the file can change it; the chain shows where."""
    for name in ("one", "two", "three"):
        await hub.cluster(name)
    settings = hub.process._settings
    found = {one.check: one for one in await asyncio.to_thread(run_checks, settings)}
    assert found["audit"].health is CheckHealth.OK
    assert "all hash chains intact" in found["audit"].text
    with sqlite3.connect(hub.data / "towline.db") as store:
        store.execute("DROP TRIGGER audit_no_update")
        of_two = "id = (SELECT block_id FROM audit_terms WHERE value = 'two')"
        find = f"SELECT last_number, packed FROM audit_blocks WHERE {of_two}"
        ((number, packed),) = store.execute(find).fetchall()
        altered = zstd.compress(zstd.decompress(packed).replace(b"two", b"six"))
        store.execute(f"UPDATE audit_blocks SET packed = ? WHERE {of_two}", (altered,))
    store.close()
    found = {one.check: one for one in await asyncio.to_thread(run_checks, settings)}
    assert found["audit"].health is CheckHealth.FAILED
    assert f"change row {number}: was altered" in found["audit"].text


async def test_the_doctor_names_projects_without_a_fence(hub: Running) -> None:
    """As the default project of a new installation."""
    settings = hub.process._settings

    async def fences() -> str:
        found = {one.check: one for one in await asyncio.to_thread(run_checks, settings)}
        assert found["fences"].health is CheckHealth.OK
        return found["fences"].text

    assert "no fence limits the services of: default (" in await fences()
    await hub.ask(
        "mutation ($id: ID!) {"
        " updateProject(id: $id,"
        ' attributes: {name: "default", fence: {unrestricted: false}}) { id } }',
        id=DEFAULT_PROJECT,
    )
    assert await fences() == "every project has a fence"
