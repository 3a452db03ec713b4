"""Operations of configuration: each authorizes, decides and audits.

Ports and values only; no IO library.
"""
