"""Observed objects: their health, their pods, and the inventory that the agent reports.

Pure rules over objects; no watch and no request.
"""
