"""`python -m campaign [robots]`: 20,000 robots by default, over all cores, with progress; exit 1 if one is wrong."""

from __future__ import annotations

import os
import sys
from multiprocessing import Pool

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")


def _check(seed: int) -> str | None:
    from campaign.base import check

    try:
        return check(seed)
    except Exception as error:  # any crash of a random robot is a finding of the campaign
        return f"robot {seed}: {type(error).__name__}: {error}"


def main() -> None:
    """Run the campaign and print every finding."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    wrong = []
    with Pool() as pool:
        for done, finding in enumerate(pool.imap_unordered(_check, range(10_000, 10_000 + count), chunksize=50), 1):
            if finding:
                wrong.append(finding)
                sys.stdout.write(finding + "\n")
            if done % 1000 == 0:
                sys.stdout.write(f"{done} robots, {len(wrong)} findings\n")
                sys.stdout.flush()
    sys.stdout.write(f"base parameters: {count} robots, {len(wrong)} findings\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
