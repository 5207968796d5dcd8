"""The peers' own virtual environment: made once, then used again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PEERS = ("figaroh==1.0.2", "mujoco[sysid]==4.0.0", "cma==4.5.0")
HOME = Path(__file__).resolve().parents[2] / ".venv-peers"


def peers_python() -> Path:
    """Interpreter of the environment with exactly these peers in it."""
    python, stamp = HOME / "bin" / "python", HOME / "peers.stamp"
    wanted = "\n".join(PEERS) + "\n"
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        sys.stderr.write(f"installing {', '.join(PEERS)} into {HOME.name} (a minute or two, once)\n")
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(HOME)], check=True)
        # Neither version control nor linters look into it.
        (HOME / ".gitignore").write_text("*\n", encoding="utf-8")
        quiet = ["-qq", "--disable-pip-version-check"]
        subprocess.run([str(python), "-m", "pip", "install", *quiet, *PEERS], check=True)
        stamp.write_text(wanted, encoding="utf-8")
    return python
