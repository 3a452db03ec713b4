"""What can be done, one module for each group of verbs; every decision is taken here.

Only the domain and ports are known; GraphQL, agents and timers all come through these verbs,
and each verb asks for the right it needs before it looks anything up.
"""
