"""The store on SQLAlchemy Core: SQLite by default, PostgreSQL when scaled out.

The only room that knows SQL; decisions belong to the use cases.
"""
