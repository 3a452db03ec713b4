"""The store in memory, for tests of operations: same answers as the SQL store, no database.

Tables, keys and types come from the metadata of the SQL store; no product code belongs here.
"""
