"""What commands read, print and write beside logs, by subject: tables, notes and machine-readable facts of results.

Start with `identification`.
"""
