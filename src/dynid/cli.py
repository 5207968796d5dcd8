"""The command line, and what happens to mistakes.

Exit 0: done; 1: done, with warnings that must be read; 2: the input is at fault; 70: a defect; 130: Ctrl-C.
"""

from __future__ import annotations

import sys

from dynid.errors import DynidError


def main() -> None:
    """Run the command line; a mistake of the user becomes a line or two and exit code 2.

    The commands load in here: Ctrl-C ends their loading as it ends their work.
    """
    interrupts = _Interrupts()
    try:
        interrupts.watch()
        from dynid.commands.app import app

        code = app(prog_name="dynid", standalone_mode=False)
    except DynidError as error:
        from dynid.faces.terminal import spoken

        sys.stderr.write(f"dynid: {spoken(str(error))}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        code = 130 if interrupts.seen else _misused(error)
    if code == 130:
        sys.stderr.write("dynid: interrupted\n")
    sys.exit(code or 0)


class _Interrupts:
    """Notes Ctrl-C: a library that is loading may turn it into an error of its own."""

    def __init__(self) -> None:
        self.seen = False

    def watch(self) -> None:
        """Begin, unless Ctrl-C means nothing here, as in the background of a script."""
        import signal

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._note)

    def _note(self, number: int, frame: object) -> None:
        self.seen = True
        raise KeyboardInterrupt


def _misused(error: Exception) -> int:
    """Say in one line what is wrong with the options; anything else is a bug, with an exit code of its own."""
    if isinstance(error, MemoryError):
        sys.stderr.write(f"dynid: there is not enough memory ({error}); give a shorter log, or parts of it\n")
        return 2
    if not hasattr(error, "format_message"):
        import traceback

        traceback.print_exception(error)
        sys.stderr.write("dynid: this is a defect of dynid, and nothing was finished; please report the lines above\n")
        return 70
    message = str(error.format_message())
    sys.stderr.write(message + "\n" if message.lstrip().startswith("Usage") else f"dynid: {message} (see --help)\n")
    return 2


if __name__ == "__main__":
    main()
