"""The command line, and what happens to mistakes.

Exit 0: done; 1: done, with warnings that must be read; 2: the input is wrong, or a file could not be written;
70: a defect; 130: Ctrl-C. Files are written before anything is printed, and a reader that closes the pipe early
(`| head`) ends the text, not the work: the exit code is that of the work.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import types
    from pathlib import Path

# What loads before `main` is as little as can be: Ctrl-C during it ends the process at once (`dynid/__init__.py`).


def main() -> None:
    """Run the command line; a mistake of the user becomes a line or two and exit code 2.

    The commands load in here: Ctrl-C ends their loading as it ends their work.
    """
    interrupts = _InterruptWatch()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller (>&-)
            setattr(sys, name, open(os.devnull, "w"))
    try:
        interrupts.watch()
        _silence_libraries()
        from dynid.cli.app import app

        code = app(prog_name="dynid", standalone_mode=False)
        _warn_of_kernel_cache()
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        interrupts.leave_at_once = True
        code = 130 if interrupts.seen else _describe_failure(error)
    except BaseException as error:  # a panic of a Rust library, which is no Exception
        if isinstance(error, SystemExit) or type(error).__name__ != "PanicException":
            raise
        interrupts.leave_at_once = True
        code = _describe_failure(RuntimeError(f"a library failed: {error}"))
    finally:
        interrupts.leave_at_once = True
        if "dynid.cli.project" in sys.modules:
            sys.modules["dynid.cli.project"].forget_values_in_use()
    if code == 130:
        _say_interrupted()
    sys.exit(code or 0)


def _silence_libraries() -> None:
    """Send nowhere what compiled libraries write to standard error, and NumPy's warnings.

    Numbers that are not finite are found where they matter; a panic of Rust is an error that says so in one line.
    Python's own standard error keeps the terminal. Nothing is done inside another program, whose stream is its own.
    """
    import warnings

    warnings.filterwarnings("ignore", module=r"scipy\.io")  # odd MAT files
    stream = sys.__stderr__
    if stream is None or sys.stderr is not stream or sys.warnoptions:
        return
    if any("stderr" in word or "/fd/" in word for word in sys.argv):  # a file to be written
        return
    try:
        if stream.fileno() != 2:
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        # First of all the stream that is left: Ctrl-C in between is said.
        sys.stderr = open(os.dup(2), "w", buffering=1, encoding=stream.encoding, errors=stream.errors)
        os.dup2(nowhere, 2)
        os.close(nowhere)
    except (OSError, ValueError):
        return
    warnings.filterwarnings("ignore", category=RuntimeWarning)


def _warn_of_kernel_cache() -> None:
    """Say once where compiled kernels could not be kept on disk."""
    kernels = sys.modules.get("dynid.dynamics.kernels.compiled")
    warning = None if kernels is None else kernels.cache_warning()
    if warning is not None:
        _write_error(f"note: {warning}")


_LONGEST_MESSAGE = 10_000
"""Characters of a message, which may list what a file holds."""

_LONGEST_REASON = 1000
"""Characters of what is wrong with the command line, which may repeat a word of any length."""


def _write_error(text: str) -> None:
    """Write a line to standard error; the terminal's module is loaded only now."""
    from dynid.cli.terminal import write_error

    write_error(text)


def _say_interrupted() -> None:
    """Write the line of Ctrl-C without a module, as NumPy cannot be loaded again, and past streams that are in use."""
    line = "dynid: interrupted\n"
    try:
        place = sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):  # another program's
        with contextlib.suppress(Exception):
            sys.stderr.write(line)
        return
    with contextlib.suppress(OSError):
        os.write(place, line.encode())


class _InterruptWatch:
    """Notes Ctrl-C: a library that is loading may turn it into an error of its own."""

    def __init__(self) -> None:
        self.seen = self.leave_at_once = False
        self.ignored, self.printed = sys.unraisablehook, sys.excepthook

    def watch(self) -> None:
        """Begin to note Ctrl-C, unless it means nothing here: in the background of a script, in another thread."""
        import atexit
        import threading

        handler = signal.getsignal(signal.SIGINT)
        own = handler is signal.default_int_handler or getattr(handler, "__module__", "") == "dynid"
        if own and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._on_interrupt)
            atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # the last: nothing is left to interrupt
            self.ignored, sys.unraisablehook = sys.unraisablehook, self._on_ignored_exception
            self.printed, sys.excepthook = sys.excepthook, self._on_printed_exception

    def _on_printed_exception(
        self, kind: type[BaseException], error: BaseException, trace: types.TracebackType | None
    ) -> None:
        """Say nothing of Ctrl-C, which compiled modules print when it meets their loading (`import_array` of NumPy)."""
        if not issubclass(kind, KeyboardInterrupt):
            self.printed(kind, error, trace)

    def _on_ignored_exception(self, ignored: sys.UnraisableHookArgs) -> None:
        """Press Ctrl-C once more where Python dropped the first, as it does in finalisers and after a fork."""
        if not issubclass(ignored.exc_type, KeyboardInterrupt):
            self.ignored(ignored)
        elif not self.leave_at_once:
            import _thread
            import threading

            # Later and not in here, where it would be dropped again.
            again = threading.Timer(0.01, _thread.interrupt_main)
            again.daemon = True
            again.start()

    def _on_interrupt(self, number: int, frame: object) -> None:
        """Note that Ctrl-C was pressed and raise KeyboardInterrupt; once the work is done, end the process."""
        again, self.seen = self.seen, True
        if not self.leave_at_once:
            raise KeyboardInterrupt
        # What failed is being said, or Python is being taken down: an exception would be a traceback.
        if not again:
            _say_interrupted()
        os._exit(130)


def _describe_failure(error: Exception) -> int:
    """Print in a line or two what is wrong with input, options or machine; return the exit code."""
    from pathlib import Path

    from dynid.cli.project import values_in_use
    from dynid.cli.terminal import discard_output, is_standard_output, write_json
    from dynid.errors import DynidError
    from dynid.messages import Message

    code = 2
    match error:
        case DynidError():
            message = error.message
        case OSError():
            where, reason = error.filename or "standard output", error.strerror or str(error)
            message = Message("system_error", "{where}: {reason}", where=str(where), reason=reason)
            if error.filename is None:
                discard_output(sys.stdout)
        case MemoryError():
            what, remedy = "there is not enough memory ({reason})", "give a shorter log, or parts of it"
            message = Message("out_of_memory", what, remedy, reason=str(error))
        case _ if hasattr(error, "format_message"):  # of click, which typer may bring along as its own
            reason = str(error.format_message())
            if type(error).__name__ == "NoArgsIsHelpError":
                _write_error(reason)
                return code
            message = Message("wrong_usage", "{reason} (see --help)", reason=reason[:_LONGEST_REASON])
        case _:
            import traceback

            _write_error("".join(traceback.format_exception(error)))
            what = "this is a bug in dynid, and the command did not finish"
            code, message = 70, Message("defect", what, "please report the lines above")
    used = values_in_use()
    text = str(message.for_command_line)
    text = text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}..."
    _write_error(f"dynid: {text}{used.origin if used else ''}")
    if any(is_standard_output(place) for place in _find_json_outputs(sys.argv)):
        write_json(Path("-"), {"error": message.record("command line")})
    return code


def _find_json_outputs(words: list[str]) -> list[Path]:
    """Paths given to --json among words that may be too wrong for the command line to be parsed."""
    from itertools import pairwise
    from pathlib import Path

    apart = [place for word, place in pairwise(words) if word == "--json"]
    return [Path(place) for place in (*apart, *(w.removeprefix("--json=") for w in words if w.startswith("--json=")))]


if __name__ == "__main__":
    main()
