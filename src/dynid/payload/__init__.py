"""Payloads and drive gains from loaded and unloaded runs.

Start with `identify_payload` and `identify_gains`.
"""
