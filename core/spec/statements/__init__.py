"""Signed statements: about bundles, orders to agents, changes of the signing key, and freezes."""
