"""Operations on cluster sources, and their reconciliation.

The connection to the management cluster is a port.
"""
