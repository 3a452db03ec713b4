"""Operations of the control plane, one module for each group. They make every decision.

Operations know only the domain and the ports. GraphQL, agents and timers all call them. Each
operation checks the permission that it needs before it reads anything else.
"""
