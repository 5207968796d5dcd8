"""`python -m campaign [robots] [mechanisms]`: 20,000 and 300 by default, over all cores; exit 1 if one is wrong."""

from __future__ import annotations

import os
import sys
from multiprocessing import Pool

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")


def _check(task: tuple[str, int]) -> str | None:
    from campaign import base, loops

    what, seed = task
    try:
        return base.check(seed) if what == "robot" else loops.check(seed)
    except Exception as error:  # any crash of a random robot is a finding of the campaign
        return f"{what} {seed}: {type(error).__name__}: {error}"


def main() -> None:
    """Run the campaign and print every finding."""
    robots, mechanisms = (int(sys.argv[k]) if len(sys.argv) > k else n for k, n in ((1, 20_000), (2, 300)))
    tasks = [("mechanism", seed) for seed in range(mechanisms)]
    tasks += [("robot", seed) for seed in range(10_000, 10_000 + robots)]
    wrong = []
    with Pool() as pool:
        for done, finding in enumerate(pool.imap_unordered(_check, tasks, chunksize=10), 1):
            if finding:
                wrong.append(finding)
                sys.stdout.write(finding + "\n")
            if done % 1000 == 0:
                sys.stdout.write(f"{done} robots, {len(wrong)} findings\n")
                sys.stdout.flush()
    sys.stdout.write(f"base parameters: {robots} robots, {mechanisms} mechanisms, {len(wrong)} findings\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
