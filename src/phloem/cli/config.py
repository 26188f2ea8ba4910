"""`phloem config`: what a configuration comes to."""

import json
import math
from typing import Annotated, Any

import typer

from phloem.cli.flags import Settings, with_settings
from phloem.config import to_toml
from phloem.config.settings import nested, values_of

EXAMPLES = """
[bold]Examples[/bold]

phloem config show > run.toml

phloem config show --preset quick --steps 20000 --set training.ramp=0.5

phloem config show --config run.toml --model HKY --kappa 4 --json
"""

app = typer.Typer(
    name="config",
    help="The settings of [bold]phloem infer[/bold]: what files and flags come to.",
    epilog="[bold]Example[/bold]\n\nphloem config show --preset quick",
    rich_markup_mode="rich",
)


@app.command(epilog=EXAMPLES)
@with_settings
def show(
    settings: Settings,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of TOML.")] = False,
) -> None:
    """Print all settings as a file for --config.

    The defaults come first, then the preset, then the file, then --set, then the other flags: what comes later counts.
    """
    config = settings.resolve()
    if as_json:
        print(json.dumps(nested({key: _jsonable(value) for key, value in values_of(config).items()}), indent=2))
    else:
        print(to_toml(config), end="")


def _jsonable(value: Any) -> Any:
    """JSON has no infinity: it is a text there."""
    return str(value) if isinstance(value, float) and math.isinf(value) else value
