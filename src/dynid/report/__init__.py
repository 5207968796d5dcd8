"""Self-contained HTML pages that work offline.

Start with `write.write_report`; sections in `answer`, `fit` and `parameters`.
"""
