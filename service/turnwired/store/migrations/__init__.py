"""Migrations of the store's schema (alembic). A new one is a file in ``versions/`` with the next number, its
``down_revision`` the one before, and the same change in ``store/schema.py``; a test compares the two.
"""
