"""`phloem config`: the settings that a preset, a file and flags resolve to."""

import json
import math
from typing import Annotated, Any

import typer

from phloem.cli.flags import Settings, with_infer_settings
from phloem.config import InferConfig
from phloem.config.infer import INFER
from phloem.config.settings import nested

EXAMPLES = """
[bold]Examples[/bold]

phloem config show > run.toml

phloem config show --preset quick --steps 20000 --set training.ramp=0.5

phloem config show --config run.toml --model HKY --kappa 4 --json
"""

app = typer.Typer(
    name="config",
    help="The settings of [bold]phloem infer[/bold], as files and flags resolve to them.",
    epilog="[bold]Example[/bold]\n\nphloem config show --preset quick",
    rich_markup_mode="rich",
)


@app.command(epilog=EXAMPLES)
@with_infer_settings
def show(
    settings: Settings[InferConfig],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of TOML.")] = False,
) -> None:
    """Print all settings, as a file for --config.

    First come the defaults, then the preset, the file, --set and the other flags; later ones override earlier ones.
    """
    config = settings.resolve()
    if as_json:
        print(json.dumps(nested({key: _jsonable(value) for key, value in INFER.values(config).items()}), indent=2))
    else:
        print(INFER.to_toml(config), end="")


def _jsonable(value: Any) -> Any:
    """JSON has no infinity: it becomes a string."""
    return str(value) if isinstance(value, float) and math.isinf(value) else value
