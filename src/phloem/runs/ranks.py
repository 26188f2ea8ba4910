"""The ranks of a run: one process, or many that share out its work and tell each other what they found.

Rank 0 leads: it alone decides, writes and speaks. The others have the same model and do what rank 0 asks for. A process
alone is rank 0 of one: it does all work itself, and everything here costs it nothing. How many processes become the
ranks of one run is said in `meeting`.

What ranks tell each other is names, small values and arrays: nothing of it is ever executed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from torch import nn

from phloem.arrays import AnyArray, FloatArray
from phloem.threads import physical_cores

Request = TypeVar("Request")
Result = TypeVar("Result")


class Parcel(NamedTuple):
    """What a message holds."""

    values: Mapping[str, Any] = MappingProxyType({})  # as JSON can hold them
    arrays: Mapping[str, AnyArray] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Task(Generic[Request, Result]):
    """Work in parts that do not depend on each other, and its requests and results as parcels."""

    name: str
    pack_request: Callable[[Request], Parcel] = field(repr=False)
    unpack_request: Callable[[Parcel], Request] = field(repr=False)
    pack_result: Callable[[Result], Parcel] = field(repr=False)
    unpack_result: Callable[[Parcel], Result] = field(repr=False)


class Ranks:
    """All ranks of a run, as one of them sees them: here a process alone."""

    rank = 0
    size = 1
    failure: str | None = None  # which of them is gone or failed, and why
    sharing = 1  # how many of them use this process's cores, itself included

    def cores(self) -> int:
        """How many cores are this process's share."""
        return max(1, physical_cores() // self.sharing)

    def share(self, count: int) -> tuple[int, int]:
        """The first of `count` particles that are this rank's, and the first that are the next one's."""
        return self.rank * count // self.size, (self.rank + 1) * count // self.size

    def gathered(self, own: FloatArray, count: int) -> FloatArray:
        """The values of all particles, (count,), from those of the own share."""
        return own

    def add_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Make every gradient the sum of those of all ranks. The same parameters have one on each of them."""

    def tell(self, name: str, parcel: Parcel = Parcel()) -> None:  # noqa: B008  it cannot change
        """From rank 0: what the others are to do next, beside it."""

    def each(
        self, task: Task[Request, Result], requests: Sequence[Request], work: Callable[[Request], Result]
    ) -> Iterator[Result]:
        """The results of a task's parts, in their order, each found by one of the ranks.

        work: how this process does a part itself.
        """
        return map(work, requests)


ALONE = Ranks()
