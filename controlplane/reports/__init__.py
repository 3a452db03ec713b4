"""Reports over the deployment ledger: DORA metrics, snapshots in time, traces of commits.

Read-only.
"""
