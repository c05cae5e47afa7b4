"""The plan of apply_retention: a policy carried out at once, on all threads.

It needs no lease: what it does others may do at the same time.
"""

from __future__ import annotations

from dataclasses import replace

from mongomem.arguments import checked_flag
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.plans.setup import ensure_ours
from mongomem.checkpoint.retention.policy import Retention, checked_retention
from mongomem.checkpoint.retention.rounds import Action, Scan, scans_of
from mongomem.checkpoint.retention.sweep import RetentionReport, Sweep
from mongomem.engine.commands import Document
from mongomem.errors import ConfigurationError


async def apply_retention(
    context: Context, policy: object, own: Retention | None, dry_run: object
) -> RetentionReport:
    """Carry out a policy, or that of the saver; say what went, or would go."""
    chosen = checked_retention(policy) or own
    if chosen is None:
        raise ConfigurationError(
            "retention is not configured: pass a mongomem.Retention here, or to the saver"
        )
    await ensure_ours(context)
    is_dry = checked_flag("dry_run", dry_run)
    sweep = Sweep(context, chosen, RetentionReport(), is_dry, prunes_all=True)
    for scan in _all_threads(context, chosen):
        await _sweep_all(sweep, scan)
    return sweep.report


def _all_threads(context: Context, policy: Retention) -> list[Scan]:
    """Return the scans of all threads: one for each action, and one of all to prune."""
    scans = scans_of(policy, context.now(), None)
    deletions = [scan for scan in scans if scan.action is not Action.PRUNE]
    prunes = [replace(scan, before=None) for scan in scans if scan.action is Action.PRUNE]
    return [*deletions, *prunes[:1]]


async def _sweep_all(sweep: Sweep, scan: Scan) -> None:
    behind: Document | None = None
    while documents := await sweep.read_page(scan, behind):
        await sweep.do_page(scan, documents)
        behind = documents[-1]
