"""The agent's durable state: desired state, inventory, unacknowledged reports, bundles.
Everything survives a kill at any point. This package makes no decisions.
"""
