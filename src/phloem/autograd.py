"""Gradients written by hand: recorded by torch's autograd, usable with `torch.func`, and differentiable once.

Torch offers two forms of a custom function. The one that `torch.func` accepts costs 40 µs more a call, as long as some
kernels take, so an operation is recorded in the quick form unless a transform of `torch.func` is active. Even that
costs a training step 0.2 ms: a step applies its operations by hand (`Application`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, TypeVar, final

import torch
from torch import Tensor

from phloem.arrays import RealArray
from phloem.errors import BadArgument

Outputs = Tensor | tuple[Tensor, ...]
Gradients = tuple[Tensor | None, ...]
Result = TypeVar("Result")
PRECISIONS = (torch.float64, torch.float32)


class Operation(ABC):
    """A function of tensors whose gradient is written by hand. An object is good for one call.

    Both methods see plain tensors on the CPU, whatever transforms wrap them in, and are not recorded themselves.
    """

    # Whether what `values` keeps is memory of the inputs or outputs: then they must not change before `gradients`.
    shares_memory: ClassVar[bool] = False

    @abstractmethod
    def values(self, wanted: tuple[bool, ...], *inputs: Any) -> Outputs:
        """The outputs. wanted: which of the inputs, tensors or None, may need a gradient."""

    @abstractmethod
    def gradients(self, wanted: tuple[bool, ...], *output_gradients: Any) -> Gradients:
        """The gradient of every input, or None for one that is not wanted, from those of the outputs."""

    def __call__(self, *inputs: Tensor | None) -> Any:
        """The outputs, with gradients."""
        check_tensors(*inputs)
        kind = _Transformable if _transforms_are_active() else _Quick
        return _in_full_precision(kind.apply, self, *inputs)


@final
class Application:
    """An operation with its inputs, to be applied once: recorded by torch's autograd or by hand, with the same result.

    By hand, `values` are plain tensors and `backward` adds to the gradients of the inputs, which must be parameters.
    """

    def __init__(self, operation: Operation, *inputs: Tensor | None) -> None:
        self._operation = operation
        self._inputs = inputs
        self._wanted = tuple(tensor is not None and tensor.requires_grad for tensor in inputs)

    def recorded(self) -> Any:
        """The outputs, with gradients."""
        return self._operation(*self._inputs)

    def values(self) -> Any:
        """The outputs, not recorded."""
        check_tensors(*self._inputs)
        with torch.no_grad():
            return _in_full_precision(self._operation.values, self._wanted, *self._inputs)

    def backward(self, *output_gradients: Tensor) -> None:
        """From the gradients of the outputs to those of the parameters."""
        with torch.no_grad():
            gradients = _in_full_precision(self._operation.gradients, self._wanted, *output_gradients)
        for tensor, gradient, wanted in zip(self._inputs, gradients, self._wanted, strict=True):
            if wanted and tensor is not None and gradient is not None:
                tensor.grad = gradient if tensor.grad is None else tensor.grad + gradient


class _Refusing(torch.autograd.Function):
    """What is not available says so in a line."""

    @staticmethod
    def vmap(_info: Any, _in_dims: Any, *_: Any) -> Any:
        raise BadArgument("vmap is not available here. Give all trees in one batch.")

    @staticmethod
    def jvp(_ctx: Any, *_: Any) -> NoReturn:
        raise BadArgument("forward-mode and second derivatives are not available here. Use torch.func.grad or vjp.")


class _Quick(_Refusing):
    """An operation without transforms."""

    @staticmethod
    def forward(ctx: Any, operation: Operation, *inputs: Tensor | None) -> Outputs:
        outputs = operation.values(ctx.needs_input_grad[1:], *inputs)
        ctx.operation, ctx.input_count = operation, len(inputs)
        kept = (outputs if isinstance(outputs, tuple) else (outputs,)) if operation.shares_memory else ()
        ctx.save_for_backward(*inputs, *kept)
        return outputs

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Gradients:
        operation, wanted = ctx.operation, ctx.needs_input_grad[1:]
        if torch.is_grad_enabled() or _transforms_are_active():  # create_graph, or derivatives of many outputs at once
            return _record_gradients(operation, wanted, gradients, ctx.saved_tensors[: ctx.input_count])
        if operation.shares_memory:
            _ = ctx.saved_tensors  # raises if any of them has been modified in place
        return None, *_plain_gradients(operation, wanted, gradients)


class _Transformable(_Refusing):
    """An operation under a transform of `torch.func`."""

    @staticmethod
    def forward(operation: Operation, *inputs: Tensor | None) -> Outputs:
        return operation.values(tuple(tensor is not None for tensor in inputs), *inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Outputs) -> None:
        ctx.operation = inputs[0]
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Gradients:
        return _record_gradients(ctx.operation, ctx.needs_input_grad[1:], gradients, ctx.saved_tensors)


class _Gradients(_Refusing):
    """The gradients of an operation, as a function of the outputs' gradients and of the operation's own inputs.

    The latter are arguments so that torch knows of the dependence: a second derivative is refused rather than zero.
    """

    @staticmethod
    def forward(
        operation: Operation, wanted: tuple[bool, ...], count: int, *gradients_and_inputs: Tensor | None
    ) -> Gradients:
        return _plain_gradients(operation, wanted, gradients_and_inputs[:count])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Gradients) -> None:
        pass

    @staticmethod
    def backward(_ctx: Any, *_: Any) -> NoReturn:
        raise BadArgument("second derivatives are not available here. Leave out create_graph.")

    @staticmethod
    def vmap(info: Any, in_dims: Any, *arguments: Any) -> tuple[Gradients, tuple[int | None, ...]]:
        """One after another: how `torch.func.jacrev` differentiates many outputs, with the same inputs for all."""
        _, _, count, *tensors = arguments
        places = in_dims[3:]
        if any(place is not None for place in places[count:]):
            _Refusing.vmap(info, in_dims)
        rows = [
            _Gradients.apply(
                *arguments[:3],
                *(
                    tensor if place is None else tensor.select(place, row)
                    for tensor, place in zip(tensors, places, strict=True)
                ),
            )
            for row in range(info.batch_size)
        ]
        stacked = [None if column[0] is None else torch.stack(column) for column in zip(*rows, strict=True)]
        return tuple(stacked), tuple(None if column is None else 0 for column in stacked)


def _record_gradients(
    operation: Operation,
    wanted: tuple[bool, ...],
    gradients: tuple[Tensor, ...],
    inputs: tuple[Tensor | None, ...],
) -> Gradients:
    return None, *_Gradients.apply(operation, wanted, len(gradients), *gradients, *inputs)


def _plain_gradients(operation: Operation, wanted: tuple[bool, ...], gradients: Any) -> Gradients:
    for gradient in gradients:
        try:
            gradient.data_ptr()
        except RuntimeError:  # torch.autograd batches gradients by other means than torch.func
            raise BadArgument("gradients in a batch are not available here. Use torch.func.jacrev.") from None
    return _in_full_precision(operation.gradients, wanted, *gradients)


def _in_full_precision(function: Callable[..., Result], *arguments: Any) -> Result:
    """What a function returns without torch's mixed precision."""
    if torch.is_autocast_enabled("cpu"):
        with torch.autocast("cpu", enabled=False):
            return function(*arguments)
    return function(*arguments)


def outside_transforms(function: Callable[[Tensor], Result], tensor: Tensor) -> Result:
    """What a function finds in a tensor's plain values; it is not recorded, and returns no tensors."""
    check_tensors(tensor)
    if not _transforms_are_active():
        return function(tensor.detach())
    result: Result = _Outside.apply(function, tensor)()
    return result


def plain_values(tensor: Tensor) -> RealArray:
    """A tensor's values as an array, also under a transform of `torch.func`."""
    if _transforms_are_active():
        return outside_transforms(Tensor.numpy, tensor)
    check_tensors(tensor)
    return tensor.detach().numpy()


class _Outside(_Refusing):
    """Not differentiable, as its result is no tensor but a function that gives it: torch takes tuples apart."""

    @staticmethod
    def forward(function: Callable[[Tensor], Any], tensor: Tensor) -> Callable[[], Any]:
        result = function(tensor.detach())
        return lambda: result

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass


def check_tensors(*tensors: Tensor | None) -> None:
    """Raise for what kernels cannot read: another precision, another device, or no tensor at all."""
    for tensor in tensors:
        if tensor is None:
            continue
        if not isinstance(tensor, Tensor):
            raise BadArgument(f"a {type(tensor).__name__} where a torch tensor is needed: use torch.as_tensor.")
        if not tensor.is_cpu or tensor.layout != torch.strided:
            raise BadArgument(f"a tensor on {tensor.device}, {tensor.layout}: phloem needs dense ones on the CPU.")
        if tensor.dtype not in PRECISIONS:
            raise BadArgument(f"a tensor of {tensor.dtype}: phloem needs single or double precision, torch.float64.")


def is_constant(tensor: Tensor) -> bool:
    """Whether no derivative with respect to the tensor can be asked for."""
    return not (tensor.requires_grad or torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def _transforms_are_active() -> bool:
    return torch._C._are_functorch_transforms_active()
