"""The agent's memory on disk: desired state, inventory, reports not yet taken, bundles.

Everything survives a kill at any point; no decision is made here.
"""
