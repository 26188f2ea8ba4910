"""Graph convolutions by name. A new one is a file here and a line in the table below."""

from collections.abc import Callable
from functools import partial

from phloem.errors import BadArgument
from phloem.features.convolutions.base import Convolution
from phloem.features.convolutions.edge import EdgeConvolution
from phloem.features.convolutions.gcn import GcnConvolution
from phloem.features.convolutions.ggnn import GgnnConvolution
from phloem.features.convolutions.gin import GinConvolution
from phloem.features.convolutions.sage import SageConvolution

# Each makes a convolution from its numbers of inputs and outputs. The names alone are the forms of the code that made
# the paper's tables; where the paper's text says otherwise, its form has a name of its own.
CONVOLUTIONS: dict[str, Callable[[int, int], Convolution]] = {
    "gcn": GcnConvolution,
    "gin": GinConvolution,
    "sage": SageConvolution,
    "ggnn": GgnnConvolution,
    "edge": EdgeConvolution,
    "gin-text": partial(GinConvolution, layers=2),
    "edge-text": partial(EdgeConvolution, layers=2, aggregation="sum"),
}


def build_convolution(name: str, inputs: int, outputs: int) -> Convolution:
    """The convolution of that name."""
    if name not in CONVOLUTIONS:
        raise BadArgument(f"convolution {name}: choose one of {', '.join(CONVOLUTIONS)}.")
    return CONVOLUTIONS[name](inputs, outputs)
