"""Schema revisions, the same files for SQLite and PostgreSQL.

Each only adds (expand) or removes what no running version reads (contract), so that replicas
of two versions can share a store.
"""
