"""Defects before a start fail it with one line and a remedy; nothing half-works."""

import os
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.x509 import DNSName, load_pem_x509_certificate
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from controlplane.platform.store.engine import make_engine, sqlite_url
from controlplane.store.migrate import migrate
from core.errors import Invalid, TowlineError
from core.runtime.clock import SystemClock
from tests import migrated
from tests.fakes.clock import FakeClock
from tests.integration.serve.test_start import refused
from tests.servers.postgres import Postgres
from towline.certificate_authority import (
    CertificateAuthority,
    CertificatePair,
    certificate_expiry,
    check_certificate,
)
from towline.demo.ports import free_ports
from towline.installation.tasks import CheckHealth, run_checks
from towline.serve.listeners import server_certificate
from towline.settings import ServeSettings, TlsSettings

NOW = SystemClock().now()
PAGE = 4096


def changed(data: Path, statement: str) -> None:
    with sqlite3.connect(data / "towline.db") as database:
        database.execute(statement)
    database.close()


async def refusal_of(url: str) -> str:
    """Why a store is not taken."""
    engine = make_engine(url)
    try:
        with pytest.raises(Invalid) as refusal:
            await migrate(engine)
    finally:
        await engine.dispose()
    return refusal.value.message


def test_a_damaged_page_is_found_before_anything_listens(tmp_path: Path) -> None:
    """It would show when a row on it is read, with answers given and changes taken by then."""
    migrated.put_sqlite(tmp_path)
    store = tmp_path / "towline.db"
    pages = bytearray(store.read_bytes())
    middle = len(pages) // PAGE // 2 * PAGE
    pages[middle : middle + 3 * PAGE] = os.urandom(3 * PAGE)
    store.write_bytes(pages)
    said = refused(tmp_path)
    # The page may also belong to the schema, which is read first.
    assert "the store is damaged" in said or "database disk image is malformed" in said
    assert "restore a backup" in said


async def test_a_store_that_was_cut_off_is_named(tmp_path: Path) -> None:
    """As a copy is that was broken off; its head tells of pages that are not there."""
    migrated.put_sqlite(tmp_path)
    store = tmp_path / "towline.db"
    store.write_bytes(store.read_bytes()[: 30 * PAGE])
    engine = make_engine(sqlite_url(tmp_path))
    try:
        with pytest.raises(TowlineError, match="restore a backup"):
            await migrate(engine)
    finally:
        await engine.dispose()


async def test_a_table_or_column_that_was_lost_is_named(tmp_path: Path) -> None:
    migrated.put_sqlite(tmp_path)
    changed(tmp_path, "DROP TABLE ledger")
    said = await refusal_of(sqlite_url(tmp_path))
    assert "ledger.actor" in said
    assert "Restore a backup" in said


async def test_a_lost_column_is_named_on_postgres(postgres: Postgres) -> None:
    url = migrated.new_postgres(postgres)
    engine = make_engine(url)
    async with engine.begin() as connection:
        await connection.exec_driver_sql("ALTER TABLE clusters DROP COLUMN alarm")
    await engine.dispose()
    assert "clusters.alarm" in await refusal_of(url)
    postgres.drop_database(url)


async def test_a_half_applied_migration_is_named(tmp_path: Path) -> None:
    """Its revision says that no step was made, and the tables of one are there."""
    migrated.put_sqlite(tmp_path)
    changed(tmp_path, "DELETE FROM alembic_version")
    said = await refusal_of(sqlite_url(tmp_path))
    assert "already exists" in said
    assert "broken off" in said


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE alembic_version SET version_num = '9999'", "newer"),
        ("DROP TABLE ledger", "ledger.actor"),
    ],
)
def test_the_doctor_names_why_a_store_would_be_refused(
    tmp_path: Path, statement: str, said: str
) -> None:
    migrated.put_sqlite(tmp_path)
    changed(tmp_path, statement)
    found = {one.check: one for one in run_checks(ServeSettings(data=tmp_path))}["store"]
    assert found.health is CheckHealth.FAILED
    assert said in found.text


@pytest.fixture
def given(tmp_path: Path) -> CertificatePair:
    """A certificate that is good for a year."""
    return CertificateAuthority.create(tmp_path, "test", NOW).sign("given", "towline", NOW)


def settings(one: CertificatePair) -> TlsSettings:
    return TlsSettings(cert=one.certificate, key=one.key)


@pytest.mark.parametrize(
    ("offset", "said"),
    [(timedelta(days=366), "renew it"), (timedelta(days=-2), "check the clock of this machine")],
)
def test_a_certificate_that_is_not_good_now_is_refused(
    given: CertificatePair, tmp_path: Path, offset: timedelta, said: str
) -> None:
    with pytest.raises(Invalid, match=said):
        server_certificate(settings(given), tmp_path, FakeClock(NOW + offset))


@pytest.mark.parametrize("minutes", [-10, 10])
def test_a_clock_ten_minutes_off_is_borne(
    given: CertificatePair, tmp_path: Path, minutes: int
) -> None:
    clock = FakeClock(NOW + timedelta(minutes=minutes))
    assert server_certificate(settings(given), tmp_path, clock) == given


def test_a_key_of_another_certificate_is_refused(given: CertificatePair, tmp_path: Path) -> None:
    other = CertificateAuthority.create(tmp_path / "other", "test", NOW).sign("x", "x", NOW)
    with pytest.raises(Invalid, match="use a matching pair"):
        server_certificate(
            settings(CertificatePair(given.certificate, other.key)), tmp_path, SystemClock()
        )


@pytest.mark.parametrize("swapped", ["certificate", "key"])
def test_files_that_are_something_else_are_named(
    given: CertificatePair, tmp_path: Path, swapped: str
) -> None:
    path = given.certificate if swapped == "certificate" else given.key
    path.write_text("nothing")
    with pytest.raises(Invalid, match=path.name):
        server_certificate(settings(given), tmp_path, SystemClock())


def own(data: Path) -> CertificatePair:
    """Certificate of a control plane that was given none."""
    return server_certificate(TlsSettings(names=["towline.example.org"]), data, FakeClock(NOW))


def trusted(by: bytes, one: CertificatePair) -> bool:
    """Whether who trusts this authority (PEM) trusts the certificate."""
    policy = PolicyBuilder().store(Store([load_pem_x509_certificate(by)])).time(NOW)
    server = policy.build_server_verifier(DNSName("towline.example.org"))
    try:
        return bool(server.verify(load_pem_x509_certificate(one.certificate.read_bytes()), []))
    except VerificationError:
        return False


@pytest.mark.parametrize("damage", ["absent", "broken", "another"])
def test_an_own_authority_without_its_key_is_refused(tmp_path: Path, damage: str) -> None:
    """A new one in its place would be trusted by no agent."""
    own(tmp_path)
    key = tmp_path / "ca.key"
    if damage == "absent":
        key.unlink()
    elif damage == "broken":
        key.write_text("nothing")
    else:
        CertificateAuthority.create(tmp_path / "other", "test", NOW)
        key.write_bytes((tmp_path / "other" / "ca.key").read_bytes())
    with pytest.raises(Invalid, match="restore"):
        own(tmp_path)


def test_a_lost_certificate_of_the_own_authority_is_made_up_for(tmp_path: Path) -> None:
    """With its key: agents that trust the lost one trust what is signed from now on."""
    own(tmp_path)
    before = (tmp_path / "ca.crt").read_bytes()
    for name in ("ca.crt", "server.crt"):
        (tmp_path / name).unlink()
    assert trusted(before, own(tmp_path))


def test_a_new_authority_signs_anew(tmp_path: Path) -> None:
    """Who is given it must not meet the certificate of the one before."""
    own(tmp_path)
    for name in ("ca.crt", "ca.key"):
        (tmp_path / name).unlink()
    again = own(tmp_path)
    assert trusted((tmp_path / "ca.crt").read_bytes(), again)


@pytest.mark.parametrize("name", ["server.crt", "server.key"])
def test_a_damaged_certificate_of_its_own_is_signed_anew(tmp_path: Path, name: str) -> None:
    own(tmp_path)
    (tmp_path / name).write_text("nothing")
    again = own(tmp_path)
    check_certificate(again, NOW)
    assert trusted((tmp_path / "ca.crt").read_bytes(), again)


def test_without_its_database_the_audit_log_is_not_called_broken(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    settings = ServeSettings(data=tmp_path, database=f"postgresql://u:p@127.0.0.1:{port}/x")
    found = {result.check: result for result in run_checks(settings)}
    assert found["store"].health is CheckHealth.FAILED
    assert "Connection refused: check the setting database" in found["store"].text
    for name in ("audit", "fences"):
        assert found[name].health is CheckHealth.WARNING
        assert found[name].text == "not verified: the store cannot be opened"


@pytest.mark.parametrize(
    ("days", "health", "text"),
    [
        (300, CheckHealth.OK, "server.crt expires on "),
        (20, CheckHealth.WARNING, ": restart `towline serve`, which renews it"),
        (-1, CheckHealth.FAILED, "server.crt expired on "),
    ],
)
def test_an_expiry_of_the_certificate_says_how_to_renew_it(
    tmp_path: Path, days: int, health: CheckHealth, text: str
) -> None:
    server_certificate(TlsSettings(), tmp_path / "tls", SystemClock())
    end = certificate_expiry(tmp_path / "tls" / "server.crt")
    clock = FakeClock(end - timedelta(days=days))
    found = {result.check: result for result in run_checks(ServeSettings(data=tmp_path), clock)}
    assert found["certificate"].health is health and text in found["certificate"].text
