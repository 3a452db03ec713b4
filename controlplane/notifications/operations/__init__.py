"""Operations of notifications: each authorizes, decides and audits.

Ports and values only; no IO library.
"""
