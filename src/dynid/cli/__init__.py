"""The command line, and what happens to mistakes.

Exit 0: done; 1: done, with warnings that must be read; 2: the input is at fault, or a file could not be written;
70: a defect; 130: Ctrl-C. Files are written before anything is printed, and a reader that closes the pipe early
(`| head`) ends the text, not the work: the exit code is that of the work.
"""

from __future__ import annotations

import os
import sys
import warnings

from dynid.errors import DynidError


def main() -> None:
    """Run the command line; a mistake of the user becomes a line or two and exit code 2.

    The commands load in here: Ctrl-C ends their loading as it ends their work.
    """
    interrupts = _Interrupts()
    warnings.filterwarnings("ignore", module=r"scipy\.io")  # odd MAT files
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller (>&-)
            setattr(sys, name, open(os.devnull, "w"))
    try:
        interrupts.watch()
        from dynid.cli.app import app

        code = app(prog_name="dynid", standalone_mode=False)
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        code = 130 if interrupts.seen else _failed(error)
    if code == 130:
        _complain("dynid: interrupted")
    sys.exit(code or 0)


def _complain(text: str) -> None:
    from dynid.cli.terminal import complain

    complain(text)


class _Interrupts:
    """Notes Ctrl-C: a library that is loading may turn it into an error of its own."""

    def __init__(self) -> None:
        self.seen = False

    def watch(self) -> None:
        """Begin, unless Ctrl-C means nothing here, as in the background of a script or outside the main thread."""
        import signal
        import threading

        if (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            signal.signal(signal.SIGINT, self._note)

    def _note(self, number: int, frame: object) -> None:
        self.seen = True
        raise KeyboardInterrupt


def _failed(error: Exception) -> int:
    """Say in a line or two what is wrong with the input, the options or the machine; anything else is a defect."""
    from dynid.cli.terminal import discard, spoken

    if isinstance(error, DynidError):
        _complain(f"dynid: {spoken(str(error))}")
    elif isinstance(error, OSError):
        discard(sys.stdout)
        _complain(f"dynid: {error.filename or 'standard output'}: {error.strerror or error}")
    elif isinstance(error, MemoryError):
        _complain(f"dynid: there is not enough memory ({error}); give a shorter log, or parts of it")
    elif hasattr(error, "format_message"):
        message = str(error.format_message())
        _complain(message if message.lstrip().startswith("Usage") else f"dynid: {message} (see --help)")
    else:
        import traceback

        _complain("".join(traceback.format_exception(error)))
        _complain("dynid: this is a defect of dynid, and nothing was finished; please report the lines above")
        return 70
    return 2


if __name__ == "__main__":
    main()
