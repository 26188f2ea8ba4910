"""`phloem`: the commands, and the one place where errors become a line and an exit code."""

import io
import os
import re
import sys
import warnings
from contextlib import suppress
from importlib.metadata import version
from typing import Annotated, Any, TextIO, cast

import typer

try:
    import resource
except ImportError:  # not a Unix
    resource = None  # type: ignore[assignment]

from phloem.cli import (
    bootstrap,
    compare,
    config,
    density,
    embed,
    evaluate,
    evidence,
    gap,
    infer,
    infer_many,
    info,
    likelihood,
    recover,
    report,
    reproduce,
    sample,
    sbn,
    search,
    simulate,
    support,
)
from phloem.errors import (
    BadArgument,
    InputWarning,
    OutOfMemory,
    PhloemError,
    StoppedByUser,
    is_lack_of_memory,
    printable,
)
from phloem.interrupts import stoppable

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
NO_MEMORY = "not enough memory. Use fewer trees or taxa."
# What a terminal obeys, but for line ends, tabs, and the colours of our own tables and help.
UNSAFE = re.compile("\x1b(?!\\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]")
LEAST_MEMORY = 1.3e9  # bytes of addresses; with fewer, libraries abort or loop for ever while they are loaded

app = typer.Typer(
    name="phloem",
    help="Bayesian phylogenetics by variational inference, with learned tree features.",
    epilog="Each command's help has examples: [bold]phloem embed --help[/bold]",
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(epilog=infer.EXAMPLES)(infer.infer)
app.command(epilog=infer_many.EXAMPLES)(infer_many.infer_many)
app.command(epilog=compare.EXAMPLES)(compare.compare)
app.command(epilog=report.EXAMPLES)(report.report)
app.command(epilog=evaluate.EXAMPLES)(evaluate.evaluate)
app.command(epilog=evidence.EXAMPLES)(evidence.evidence)
app.command(epilog=sample.EXAMPLES)(sample.sample)
app.command(epilog=gap.EXAMPLES)(gap.gap)
app.command(epilog=likelihood.EXAMPLES)(likelihood.likelihood)
app.command(epilog=bootstrap.EXAMPLES)(bootstrap.bootstrap)
app.command(epilog=search.EXAMPLES)(search.search)
app.command(epilog=support.EXAMPLES)(support.support)
app.command(epilog=simulate.EXAMPLES)(simulate.simulate)
app.add_typer(sbn.app)
app.add_typer(density.app)
app.command(epilog=embed.EXAMPLES)(embed.embed)
app.command(epilog=recover.EXAMPLES)(recover.recover)
app.add_typer(reproduce.app)
app.add_typer(config.app)
app.command(epilog=info.EXAMPLES)(info.info)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"phloem {version('phloem')}")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Bayesian phylogenetics by variational inference, with learned tree features."""
    if resource is not None:
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY and limit < LEAST_MEMORY:
            raise BadArgument(
                f"memory is limited to {limit / 1e9:.1f} GB (ulimit -v), and phloem needs {LEAST_MEMORY / 1e9} GB to "
                "start. Raise the limit."
            )


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code: 0 done, 2 bad input or usage, 130 interrupted, 1 anything else."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", InputWarning)
        warnings.showwarning = _show_warning
        return _run(arguments)


def _run(arguments: list[str]) -> int:
    try:
        with stoppable():
            code = app(arguments or ["--help"], prog_name="phloem", standalone_mode=False)
            sys.stdout.flush()
    except StoppedByUser as problem:
        return _complain(str(problem), INTERRUPTED)
    except OutOfMemory as problem:
        return _complain(str(problem), FAILED)
    except PhloemError as problem:
        return _complain(str(problem), BAD_INPUT)
    except typer.TyperException as problem:
        context = getattr(problem, "ctx", None)
        command = context.command_path if context else "phloem"
        message = problem.format_message().rstrip(".")
        return _complain(f"{message}. See `{command} --help`.", problem.exit_code)
    except BrokenPipeError:  # the reader of our output, such as `head`, has closed it
        _discard_output()
        return FAILED
    except (MemoryError, OSError, RuntimeError, ImportError) as problem:
        if is_lack_of_memory(problem):
            return _complain(NO_MEMORY, FAILED)
        if not isinstance(problem, OSError):
            raise
        _discard_output()  # files are handled where they are read and written: this is the terminal or a pipe
        return _complain(f"cannot write to standard output ({problem.strerror}).", FAILED)
    except KeyboardInterrupt:
        return _complain("interrupted.", INTERRUPTED)
    if code == INTERRUPTED:
        return _complain("interrupted.", INTERRUPTED)
    return code if isinstance(code, int) else DONE


def _discard_output() -> None:
    """Discard what is still buffered for standard output, so that it does not fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str, code: int) -> int:
    """Print one line to stderr, whatever the message contains."""
    if sys.stderr is not None:  # print would take standard output instead
        print(f"phloem: {printable(message)}", file=sys.stderr)
    return code


def _show_warning(message: Warning | str, *_place: Any, **_more: Any) -> None:
    """A warning as one line of phloem's: a user has no use for the place in the sources."""
    _complain(str(message), DONE)


def main() -> None:
    """The `phloem` program."""
    try:
        _prepare_output()
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before the command begins, or again while we say that it was stopped
        code = _complain("interrupted.", INTERRUPTED)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or gone: `run` has said so if it matters
            stream.flush()
    # All is done, and with torch and numba loaded Python takes a second or more to shut down.
    os._exit(code)


def _prepare_output() -> None:
    """Names are UTF-8 wherever the output goes, and a terminal obeys nothing that files hold."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
    elif hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
        if sys.stdout.isatty():
            sys.stdout = cast(TextIO, Terminal(sys.stdout))


class Terminal(io.TextIOBase):
    """A stream that shows text on a terminal, which obeys nothing that files hold: control characters are blanks."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write what is safe of the text."""
        return self._stream.write(UNSAFE.sub(" ", text))

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    def isatty(self) -> bool:
        """It is a terminal: nothing else needs this."""
        return True

    def fileno(self) -> int:
        """The stream's."""
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The stream's."""
        return self._stream.encoding
