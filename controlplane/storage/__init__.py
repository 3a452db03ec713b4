"""The store on SQLAlchemy Core: SQLite by default, PostgreSQL when scaled out.

The only package that contains SQL; the use cases make all decisions.
"""
