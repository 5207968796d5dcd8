"""What can be trusted: residuals, unidentifiable directions, plausibility, the verdict.

Start with `verdict`.
"""
