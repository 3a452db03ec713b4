"""The checker: reads the store past the product, and holds it against what agents have seen."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import asyncpg


@dataclass(slots=True)
class Seen:
    """What agents, users and git know for certain, gathered while all goes wrong.

    `held`: what each agent holds (service, sequence); `settled`: all that it ever carried out, in
    its order, with the names of the objects; `sha`: the last commit; `reported`: objects with
    reported drift, in order; `asked`: names of clusters that a user has made.
    """

    marks: dict[str, str]
    sha: str = ""
    held: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    settled: list[list[Any]] = field(default_factory=list)
    reported: dict[str, list[str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


async def faults(url: str, seen: Seen) -> list[str]:
    """Every invariant that does not hold, as a sentence."""
    connection = await asyncpg.connect(url.replace("+asyncpg", ""), ssl=False)
    try:
        services = await connection.fetch("SELECT * FROM services WHERE deleted_at IS NULL")
        ledger = await connection.fetch("SELECT * FROM ledger ORDER BY id")
        names = await connection.fetch("SELECT name, count(*) AS n FROM clusters GROUP BY name")
    finally:
        await connection.close()
    return [
        *_reality(services, seen),
        *_ledger_of_health(services, ledger),
        *_drifts(ledger, seen),
        *_order(seen),
        *_strangers(seen),
        *_users({row["name"]: row["n"] for row in names}, seen),
    ]


def _reality(services: list[Any], seen: Seen) -> list[str]:
    """The store wants what agents hold, and agents have carried out what it wants last."""
    found = []
    last = {(one[0], one[1]): (one[2], one[3]) for one in seen.settled}
    for row in services:
        cluster, wanted = row["cluster_id"], (row["generation"], row["digest"])
        if dict(seen.held.get(cluster, ())).get(row["id"]) != row["generation"]:
            found.append(f"{cluster} does not hold generation {row['generation']}")
        if last.get((cluster, row["id"])) != wanted:
            found.append(f"{cluster} carried out {last.get((cluster, row['id']))}, not {wanted}")
        if row["commit_sha"] != seen.sha:
            found.append(f"{cluster} is to have {row['commit_sha']}, not {seen.sha}")
        if row["observed_generation"] != row["generation"]:
            found.append(f"{cluster}: the store has heard of {row['observed_generation']} only")
    return found


def _ledger_of_health(services: list[Any], ledger: list[Any]) -> list[str]:
    """The last that the ledger says of a service's health is what it is; nothing is there twice."""
    found, healthy = [], defaultdict(list)
    for row in ledger:
        if row["stage"].lower() == "healthy":
            healthy[row["service_id"]].append(row["sequence"])
    for row in services:
        healthy_at = healthy[row["id"]]
        if not healthy_at or healthy_at[-1] != row["generation"]:
            found.append(
                f"the ledger ends with {healthy_at[-1:]} for {row['id']} at {row['generation']}"
            )
        if healthy_at != sorted(set(healthy_at)):
            found.append(f"the ledger has health of {row['id']} as {healthy_at}")
    return found


def _drifts(ledger: list[Any], seen: Seen) -> list[str]:
    """Each report is in the ledger, once, in its order, under its own cluster."""
    written = defaultdict(list)
    for row in ledger:
        if row["stage"].lower() == "drifted":
            written[row["cluster_id"]].append(row["message"].split()[1].rpartition("/")[2])
    return [
        f"{cluster}: of {len(reported)} reports the ledger has {len(written[cluster])}, "
        f"missing {sorted(set(reported) - set(written[cluster]))[:3]}, "
        f"in order: {written[cluster] == sorted(written[cluster], key=reported.index)}"
        if set(written[cluster]) <= set(reported)
        else f"{cluster}: the ledger has reports that it never made"
        for cluster, reported in seen.reported.items()
        if written[cluster] != reported
    ]


def _order(seen: Seen) -> list[str]:
    """What an agent carries out of one service only grows."""
    found, last = [], {}
    for agent, service, sequence, *_ in seen.settled:
        if last.get((agent, service), 0) >= sequence:
            found.append(f"{agent}: {sequence} after {last[agent, service]}")
        last[agent, service] = sequence
    return found


def _strangers(seen: Seen) -> list[str]:
    """No agent ever got an object of another cluster."""
    return [
        f"{one[0]} got {name}"
        for one in seen.settled
        for name in one[6]
        if not name.startswith(f"{seen.marks[one[0]]}-")
    ]


def _users(clusters: dict[str, int], seen: Seen) -> list[str]:
    """What a user has asked for until it was answered is there once."""
    return [f"{name} is there {clusters.get(name, 0)} times" for name in seen.asked
            if clusters.get(name, 0) != 1]  # fmt: skip
