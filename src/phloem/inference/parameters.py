"""Trained parameters as a safetensors file: tensors by name, and nothing that a reader would have to run."""

from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError

from phloem.errors import FileProblem
from phloem.files import atomic_write, read_bytes
from phloem.variational.joint import JointModel


def write_parameters(model: JointModel, path: Path) -> None:
    """Write all parameters of a model."""
    content = safetensors.torch.save({name: tensor.contiguous() for name, tensor in model.state_dict().items()})
    with atomic_write(path) as stream:
        stream.write(content)


def read_parameters(model: JointModel, path: Path) -> None:
    """Give a model the parameters of a file that was written for one of the same kind on the same support."""
    try:
        found = safetensors.torch.load(read_bytes(path))
    except SafetensorError as problem:
        raise FileProblem(f"{path}: holds no parameters ({problem}). Name a file that `phloem infer` wrote.") from None
    wanted = model.state_dict()
    if {name: (t.shape, t.dtype) for name, t in found.items()} != {n: (t.shape, t.dtype) for n, t in wanted.items()}:
        raise FileProblem(f"{path}: holds the parameters of another model. Use the run's own support and settings.")
    if not all(tensor.isfinite().all() for tensor in found.values()):
        raise FileProblem(f"{path}: some parameters are no numbers. The file is damaged: use another copy.")
    model.load_state_dict(found)
