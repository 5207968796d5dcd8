"""Self-contained HTML pages that work offline.

Start with `write.write_report`; one class per section in `sections`.
"""
