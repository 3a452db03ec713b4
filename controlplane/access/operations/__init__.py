"""Operations of access: each authorizes, decides and audits.

Ports and values only; no IO library.
"""
