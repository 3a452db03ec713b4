"""Services: their definition, desired and observed state, components and ledger.

What higher nouns keep of a service is behind `ServiceParts`.
"""
