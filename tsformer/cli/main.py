"""From the command line to an exit status."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

from tsformer.cli.arguments import UsageError, help_text, parse


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    argv
        Words of the command line after the program; None: those of this process.

    Returns
    -------
    int
        0 done, 1 the command failed, 2 the command line is wrong, 130 interrupted.
    """
    argv = sys.argv[1:] if argv is None else argv
    as_it_was, warnings.formatwarning = warnings.formatwarning, _one_line
    try:
        status = _run(argv)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except BrokenPipeError:  # the reader has gone, as in `--help | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains at its end
        return 0
    except UsageError as error:
        return _fail(error, 2)
    except (ValueError, TypeError, OSError) as error:
        # Faults of data and settings are ours to explain; a trace back helps only who looks for a fault in the code.
        if "--traceback" in argv:
            raise
        return _fail(error, 1)
    finally:
        warnings.formatwarning = as_it_was


def _run(argv: Sequence[str]) -> int:
    """Run a command; errors come through."""
    arguments = parse(argv)
    if "--version" in arguments.options:
        from tsformer import __version__

        print(f"tsformer {__version__}")
        return 0
    if "--help" in arguments.options:
        print(help_text(arguments.command))
        return 0
    assert arguments.command is not None
    from tsformer.cli.compose import compose, to_yaml  # Hydra, half a second

    settings = compose(arguments.command, arguments.overrides)
    if "--show-config" in arguments.options:
        print(to_yaml(settings.config), end="")
        return 0
    home = arguments.command if arguments.command in ("predict", "backtest") else "experiment"
    getattr(import_module(f"tsformer.cli.{home}"), arguments.command)(settings)
    return 0


def _fail(error: object, status: int) -> int:
    """Say what went wrong."""
    print(f"tsformer: {error}", file=sys.stderr)
    return status


def _one_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Format a warning without the code it comes from."""
    return f"warning: {message}\n" if issubclass(category, UserWarning) else f"{category.__name__}: {message}\n"
