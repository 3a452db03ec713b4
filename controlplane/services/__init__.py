"""Services: their definition, desired and observed state, components and ledger.

`ServiceParts` has the functions of higher nouns for their parts of a service.
"""
