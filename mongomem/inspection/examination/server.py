"""The server: versions, topology, clock, concerns, search."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from pymongo.errors import OperationFailure

from mongomem.engine.commands import UNAUTHORIZED, Aggregate, RunCommand, as_utc
from mongomem.engine.effects import DescribeConcerns
from mongomem.inspection.context import Context
from mongomem.inspection.examination.findings import Findings, look

OLDEST = (4, 4)
"""The oldest version that mongomem works on."""

SUPPORTED = (7, 0)
"""The oldest version that MongoDB still mends (https://www.mongodb.com/legal/support-policy)."""

LARGEST_DRIFT = timedelta(seconds=30)
"""How far two clocks may be apart: epochs, TTL and the watermark of searches allow for more, and a
clock that drifts goes on drifting."""

SAFE_READS = ("majority", "linearizable", "snapshot")


async def examine_server(context: Context, findings: Findings) -> None:
    """Look at the server."""
    info = await RunCommand({"buildInfo": 1})
    hello = await RunCommand({"hello": 1})
    now = context.saver.now()
    _see_version(findings, info)
    _see_topology(findings, hello)
    _see_clock(findings, now, hello.get("localTime"))
    _see_concerns(findings, await DescribeConcerns())
    await _see_parameters(findings, info)
    await _see_search(context, findings)


def _version(text: object) -> tuple[int, int]:
    """Return the first two numbers of a version; zeros where it has none."""
    numbers = [int(part) for part in str(text).split(".")[:2] if part.isdigit()]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (0, 0)


def _see_version(findings: Findings, info: Mapping[str, Any]) -> None:
    version = info.get("version")
    findings.facts["server"] = str(version)
    if _version(version) < OLDEST:
        findings.error(
            "server_version",
            f"MongoDB {version} is older than 4.4",
            "upgrade the server: some queries of mongomem fail on it",
        )
    elif _version(version) < SUPPORTED:
        findings.note(
            "server_version",
            f"MongoDB {version} gets no security fixes any more",
            "upgrade the server, one major version after the other",
        )


def _see_topology(findings: Findings, hello: Mapping[str, Any]) -> None:
    members = len([*hello.get("hosts", ()), *hello.get("passives", ())])
    arbiters = len(hello.get("arbiters", ()))
    if hello.get("msg") == "isdbgrid":
        findings.facts["topology"] = "sharded cluster"
        return
    if "setName" not in hello:
        findings.facts["topology"] = "standalone"
        findings.note(
            "standalone",
            "a standalone server has one copy of the data, and may lose the last 100 ms in a crash",
            "for data that matters make it a replica set: start it with --replSet, then run "
            "rs.initiate()",
        )
        return
    with_arbiters = f" and {arbiters} arbiters" if arbiters else ""
    findings.facts["topology"] = f"replica set of {members}{with_arbiters}"
    _see_members(findings, members, arbiters)


def _see_members(findings: Findings, members: int, arbiters: int) -> None:
    if members == 1:
        findings.note(
            "one_member",
            "the replica set has one member that holds data: one copy of it, and no failover",
            "for data that matters use three members",
        )
    elif members == 2:
        beside = " beside an arbiter" if arbiters else ""
        findings.warning(
            "two_members",
            f"two members hold data{beside}: while one of them is down no write is acknowledged",
            "use three members that hold data",
        )


def _see_clock(findings: Findings, now: datetime, told: Any) -> None:
    if not isinstance(told, datetime):
        return
    drift = as_utc(told) - now
    findings.facts["clock_drift_seconds"] = round(drift.total_seconds(), 1) + 0.0  # no -0.0
    if abs(drift) > LARGEST_DRIFT:
        findings.warning(
            "clock",
            f"the clock of the server is {drift.total_seconds():.0f} s from the clock here",
            "let both be set by NTP: times to live and the order of threads depend on it",
        )


def _see_concerns(findings: Findings, concerns: Mapping[str, Any]) -> None:
    write, read = concerns["write_concern"], concerns["read_concern"]
    preference = concerns["read_preference"]
    w = write.get("w", "default")
    findings.facts["write_concern"], findings.facts["read_concern"] = str(w), str(read)
    findings.facts["read_preference"] = preference
    if w != "majority":
        findings.warning(
            "write_concern",
            f"the write concern is {w!r}: after a failover a write that was acknowledged may be "
            "gone",
            "leave concerns= of the memory out, or use WriteConcern('majority')",
        )
    if read not in SAFE_READS or preference != "primary":
        findings.warning(
            "read_concern",
            f"reads are {preference!r} with read concern {read!r}: a graph may go on from an older "
            "checkpoint",
            "leave concerns= of the memory out, or read from the primary with 'majority'",
        )


async def _see_parameters(findings: Findings, info: Mapping[str, Any]) -> None:
    """Look at parameters of the server, for which a user needs a role on ``admin``."""
    asked = {"getParameter": 1, "featureCompatibilityVersion": 1, "ttlMonitorEnabled": 1}
    told = await look(findings, "parameters of the server", _parameters(asked))
    if told is None:
        return
    held = told.get("featureCompatibilityVersion")
    level = held.get("version") if isinstance(held, Mapping) else held
    findings.facts["feature_compatibility"] = str(level)
    if level and _version(level) < _version(info.get("version")):
        findings.note(
            "feature_compatibility",
            f"the server is MongoDB {info.get('version')}, its data are as of {level}",
            "finish the upgrade by setFeatureCompatibilityVersion once all is well",
        )
    if told.get("ttlMonitorEnabled") is False:
        findings.error(
            "ttl_monitor",
            "the server deletes nothing that has expired: ttlMonitorEnabled is false",
            "set the parameter ttlMonitorEnabled to true",
        )


async def _parameters(asked: dict[str, Any]) -> Mapping[str, Any]:
    """Read parameters; none where the server is one that has not all of them, as mongos."""
    try:
        return await RunCommand(asked, on_admin=True)
    except OperationFailure as error:
        if error.code in UNAUTHORIZED:
            raise
        return {}


async def _see_search(context: Context, findings: Findings) -> None:
    """Look whether the server has search nodes."""
    try:
        found = await Aggregate(context.store.items, [{"$listSearchIndexes": {}}])
    except OperationFailure as error:
        if error.code in UNAUTHORIZED:
            findings.unseen("search indexes", "this user has not the right to")
        # Servers without search nodes answer with codes that differ by version.
        findings.facts["search"] = "exact, in the process"
        return
    names = [str(one.get("name")) for one in found]
    findings.facts["search"] = f"search nodes, indexes: {', '.join(names) or 'none'}"
