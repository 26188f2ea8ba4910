"""How processes become the ranks of one run, and how they notice that one of them is gone.

A launcher (torchrun, srun, mpirun) starts the same command in every process and says in the environment which rank each
has and where rank 0 is. Rank 0 listens there for the others, and stays connected with each for as long as the run
lasts: requests, results and failures go this way, and when a process ends, whyever, the other end notices. The sums of
every training step go another way, through torch's `gloo`, which is made for them.
"""

import json
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from importlib.metadata import version
from queue import SimpleQueue
from threading import Event, Lock, Thread, Timer
from types import FrameType
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # torch exports it, but does not say so
from torch.distributed.distributed_c10d import PrefixStore, Store

from phloem.arrays import FloatArray
from phloem.errors import BadArgument, ProgramProblem, printable
from phloem.interrupts import REQUESTS, held
from phloem.runs.ranks import ALONE, Parcel, Ranks, Request, Result, Task
from phloem.runs.wires import Message, Wire, encode

MEETING_SECONDS = 120.0  # for all processes to come: a batch system starts them within moments
GREETING_SECONDS = 10.0  # for one that has come to say who it is
ASKING_SECONDS, POLLING_SECONDS = 2.0, 0.1
LONGEST_GREETING = 1_000_000  # bytes
STEP_MINUTES = 60.0  # for the sums of a step, as one host may have to compile what another has compiled before
NOTICING_SECONDS = 2.0  # for a process to act by itself on what its connections know already
LEARNING_SECONDS = 10.0  # for rank 0 to learn which of the others is gone, if a sum has failed
ENDING_SECONDS = 60.0  # for rank 0 to save and end, after which it is ended
RELAY_SECONDS = 5.0  # for rank 0 to hear a request to stop by itself

# What ranks tell each other besides tasks.
HERE, WELCOME, STOP, FAILED, RESULT = "here", "welcome", "stop", "failed", "result"
VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Place(NamedTuple):
    """Which rank of how many this process is, and where rank 0 can be found."""

    rank: int
    size: int
    host: str
    port: int

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Place | None":
        """What a launcher says in the environment; None for a process alone."""
        if environment.get("WORLD_SIZE", "1") == "1":
            return None
        missing = [name for name in VARIABLES if not environment.get(name)]
        if missing:
            raise BadArgument(
                f"WORLD_SIZE is {printable(environment['WORLD_SIZE'])}, but {missing[0]} is not set. Set "
                f"{', '.join(VARIABLES)} for every process, or unset WORLD_SIZE for a run of one."
            )
        rank, size, port = (_number(name, environment[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
        if not (0 <= rank < size and port < 65536):
            raise BadArgument(f"RANK {rank} of WORLD_SIZE {size}, MASTER_PORT {port}: ranks are 0 to {size - 1}.")
        return cls(rank, size, environment["MASTER_ADDR"], port)


def _number(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise BadArgument(f"{name} is {printable(text)!r}: give a whole number.")
    return int(text)


class RankLost(KeyboardInterrupt):
    """Rank 0 cannot continue without a rank that is gone. As when a user stops a run, what was done is saved."""


class Members(Ranks):
    """Ranks of which there are several: sums over all of them."""

    def __init__(self, place: Place, sharing: int) -> None:
        self.rank, self.size = place.rank, place.size
        self.sharing = sharing

    def gathered(self, own: FloatArray, count: int) -> FloatArray:
        """The values of all particles, (count,), from those of the own share."""
        first, end = self.share(count)
        values = torch.zeros(count, dtype=torch.float64)
        values[first:end] = torch.from_numpy(own)
        self._sum(values)  # of one number and zeros, which is exact
        return np.asarray(values.numpy())

    def add_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Make every gradient the sum of those of all ranks, in double precision."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([gradient.reshape(-1).to(torch.float64) for gradient in gradients])
        self._sum(flat)
        first = 0
        for gradient in gradients:
            end = first + gradient.numel()
            gradient.copy_(flat[first:end].reshape(gradient.shape))
            first = end

    def _sum(self, values: torch.Tensor) -> None:
        try:
            dist.all_reduce(values)
        except RuntimeError as problem:
            self._lost(problem)

    def _lost(self, problem: Exception) -> NoReturn:
        raise NotImplementedError


class Leader(Members):
    """Rank 0 of several. A rank that is gone, or that failed, ends the run like a request to stop."""

    def __init__(self, place: Place, sharing: int, wires: Mapping[int, Wire]) -> None:
        super().__init__(place, sharing)
        self._wires = wires
        self._inboxes: dict[int, SimpleQueue[Message | None]] = {rank: SimpleQueue() for rank in wires}
        self._noticed, self._failed, self._ended = Event(), Event(), Event()
        self._deciding = Lock()
        for rank in wires:
            Thread(target=self._listen, args=(rank,), daemon=True).start()

    def tell(self, name: str, parcel: Parcel = Parcel()) -> None:  # noqa: B008  it cannot change
        """What the others are to do next."""
        message = encode(name, parcel)
        for rank in self._wires:
            self._send(rank, message)

    def each(
        self, task: Task[Request, Result], requests: Sequence[Request], work: Callable[[Request], Result]
    ) -> Iterator[Result]:
        """The results of a task's parts, in their order: part i is that of rank i modulo their number."""
        for number, request in enumerate(requests):
            if rank := number % self.size:
                self._send(rank, encode(task.name, task.pack_request(request)))
        for number, request in enumerate(requests):
            if rank := number % self.size:
                message = self._inboxes[rank].get()
                if message is None:
                    self._lost(EOFError("no result"))
                yield task.unpack_result(message.parcel)
            else:
                yield work(request)

    def end(self) -> None:
        """Let the others end."""
        with self._deciding:
            self._ended.set()
        for wire in self._wires.values():
            with suppress(OSError):
                wire.send(STOP)

    def _send(self, rank: int, message: bytes) -> None:
        try:
            with held():  # half a message would make no sense of what follows
                self._wires[rank].send_encoded(message)
        except OSError as problem:
            self._lost(problem)

    def _listen(self, rank: int) -> None:
        wire = self._wires[rank]
        while True:
            try:
                message = wire.receive()
            except (OSError, EOFError):
                self._fail(f"rank {rank} is gone: it was killed, or its host or network failed")
                return
            if message.name == FAILED:
                self._fail(f"rank {rank}: {message.parcel.values['reason']}")
                return
            if message.name == STOP:
                self._ask_to_stop()
            else:
                self._inboxes[rank].put(message)

    def _fail(self, reason: str) -> None:
        """What the first failure is; the others may follow from it. Not in the main thread, which is told."""
        with self._deciding:
            if self._ended.is_set() or self.failure is not None:
                return
            self.failure = reason
        self._failed.set()
        for inbox in self._inboxes.values():
            inbox.put(None)
        if not self._noticed.wait(NOTICING_SECONDS):
            self._ask_to_stop()
        if not self._ended.wait(ENDING_SECONDS):  # it waits for what will not come
            _complain(f"{reason}. Resume the run with --resume.")
            os._exit(1)

    def _ask_to_stop(self) -> None:
        if not self._ended.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    def _lost(self, problem: Exception) -> NoReturn:
        self._noticed.set()
        if not self._failed.wait(LEARNING_SECONDS):
            with self._deciding:
                self.failure = self.failure or f"ranks have lost each other ({_first_line(problem)})"
        raise RankLost(self.failure)


class Follower(Members):
    """A rank other than 0. It ends when rank 0 says so, or is gone itself."""

    def __init__(self, place: Place, sharing: int, wire: Wire) -> None:
        super().__init__(place, sharing)
        self._wire = wire
        self._inbox: SimpleQueue[Message] = SimpleQueue()
        Thread(target=self._listen, daemon=True).start()
        for request in REQUESTS:
            if signal.getsignal(request) not in (signal.SIG_IGN, None):
                signal.signal(request, self._relay)

    def requests(self) -> Iterator[Message]:
        """What rank 0 tells this one, until it says that all is done and this process ends."""
        while True:
            yield self._inbox.get()

    def answer(self, parcel: Parcel) -> None:
        """Give the result of the part that was asked for last."""
        with suppress(OSError):  # rank 0 is gone: the listener knows
            self._wire.send(RESULT, parcel)

    def fail(self, reason: str) -> NoReturn:
        """Tell rank 0 why this process cannot continue, and end it."""
        with suppress(OSError):
            self._wire.send(FAILED, Parcel({"reason": printable(reason)}))
        time.sleep(NOTICING_SECONDS)  # rank 0 may say that all is done, and must hear this before the connection ends
        os._exit(1)

    def _listen(self) -> None:
        while True:
            try:
                message = self._wire.receive()
            except (OSError, EOFError):
                _complain(f"rank {self.rank}: rank 0 is gone: it was killed, or its host or network failed.")
                os._exit(1)
            if message.name == STOP:
                os._exit(0)
            self._inbox.put(message)

    def _relay(self, _signal: int, _frame: FrameType | None) -> None:
        """Rank 0 decides when to stop. It has usually been asked to as well."""

        def tell() -> None:
            with suppress(OSError):
                self._wire.send(STOP)

        timer = Timer(RELAY_SECONDS, tell)
        timer.daemon = True
        timer.start()

    def _lost(self, problem: Exception) -> NoReturn:
        time.sleep(NOTICING_SECONDS)  # rank 0 says that all is done, or whoever is the cause is known by then
        self.fail(f"it has lost the others ({_first_line(problem)})")


@contextmanager
def ending(ranks: Ranks) -> Iterator[Ranks]:
    """Around what rank 0 does: the others end with it."""
    try:
        yield ranks
    finally:
        if isinstance(ranks, Leader):
            with held():
                ranks.end()


def meet_if_told() -> Ranks:
    """All ranks of this run, if a launcher started several processes; else this one alone."""
    place = Place.of(os.environ)
    return ALONE if place is None else meet(place)


def meet(place: Place, *, seconds: float = MEETING_SECONDS) -> Leader | Follower:
    """Wait for all ranks, and connect them."""
    deadline = time.monotonic() + seconds
    store = _find_store(place, deadline)
    ranks = _lead(place, store, deadline) if place.rank == 0 else _follow(place, store, deadline)
    dist.init_process_group(
        "gloo",
        store=PrefixStore("phloem/sums", store),
        rank=place.rank,
        world_size=place.size,
        timeout=timedelta(minutes=STEP_MINUTES),
    )
    return ranks


def _find_store(place: Place, deadline: float) -> Store:
    """Where ranks leave notes for each other: that of rank 0, or of its launcher."""
    is_ours = place.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    try:
        if not is_ours:
            _wait_until_there(place, deadline)
        patience = timedelta(seconds=GREETING_SECONDS)
        found = TCPStore(place.host, place.port, is_master=is_ours, timeout=patience, wait_for_workers=False)
    except (OSError, RuntimeError) as problem:
        what = "rank 0 cannot listen there" if is_ours else "rank 0 is not there"
        raise ProgramProblem(
            f"rank {place.rank} of {place.size}: MASTER_ADDR and MASTER_PORT say {place.host}, port {place.port}, and "
            f"{what} ({_first_line(problem)}). Unset WORLD_SIZE for a run of one process."
        ) from None
    return PrefixStore(f"phloem/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", found)


def _wait_until_there(place: Place, deadline: float) -> None:
    """Wait for whoever listens there. Torch would wait too, with pages of complaints and deaf to Ctrl-C."""
    while True:
        try:
            socket.create_connection((place.host, place.port), timeout=ASKING_SECONDS).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(POLLING_SECONDS)


def _lead(place: Place, store: Store, deadline: float) -> Leader:
    token = secrets.token_hex(16)
    wires: dict[int, Wire] = {}
    greetings: dict[int, Mapping[str, Any]] = {0: _greeting(0, token)}
    with _listening() as server:
        store.set("meeting", json.dumps([server.getsockname()[1], token]))
        while len(wires) < place.size - 1:
            if time.monotonic() > deadline:
                missing = [str(rank) for rank in range(1, place.size) if rank not in wires]
                raise ProgramProblem(
                    f"rank 0 of {place.size}: rank {', '.join(missing[:5])} has not come. Start all {place.size} "
                    "processes at about the same time, or unset WORLD_SIZE for a run of one."
                )
            with suppress(OSError, EOFError, ValueError, KeyError):  # a stranger
                connection, _ = server.accept()
                wire = Wire(connection)
                message = wire.receive(most_bytes=LONGEST_GREETING, seconds=GREETING_SECONDS)
                greeting = message.parcel.values
                if message.name == HERE and secrets.compare_digest(str(greeting["token"]), token):
                    rank = int(greeting["rank"])
                    wires[rank], greetings[rank] = wire, greeting
    for rank, greeting in greetings.items():
        if greeting["version"] != version("phloem"):
            raise ProgramProblem(
                f"rank {rank} has phloem {greeting['version']}, rank 0 {version('phloem')}. Install the same one."
            )
    for rank, wire in wires.items():
        wire.send(WELCOME, Parcel({"sharing": _sharing(greetings, rank)}))
    return Leader(place, _sharing(greetings, 0), wires)


def _follow(place: Place, store: Store, deadline: float) -> Follower:
    while True:
        try:
            if not store.check(["meeting"]):
                raise TimeoutError
            port, token = json.loads(store.get("meeting"))
            wire = Wire(socket.create_connection((place.host, port), timeout=GREETING_SECONDS))
            wire.send(HERE, Parcel(_greeting(place.rank, token)))
            message = wire.receive(seconds=max(1.0, deadline - time.monotonic()) + GREETING_SECONDS)
            return Follower(place, message.parcel.values["sharing"], wire)
        except (RuntimeError, OSError, EOFError) as problem:
            if time.monotonic() > deadline or isinstance(problem, EOFError):
                raise ProgramProblem(
                    f"rank {place.rank} of {place.size}: rank 0 does not answer at {place.host}. What it says is the "
                    "reason; or unset WORLD_SIZE for a run of one process."
                ) from None
        time.sleep(POLLING_SECONDS)


@contextmanager
def _listening() -> Iterator[socket.socket]:
    """A socket on which the others can find rank 0; accepting takes a second at most, to be interruptible."""
    if socket.has_dualstack_ipv6():
        server = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    else:
        server = socket.create_server(("", 0))
    with server:
        server.settimeout(1.0)
        yield server


def _greeting(rank: int, token: str) -> dict[str, Any]:
    """Who a process is and which processors it may use."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return {
        "rank": rank,
        "token": token,
        "version": version("phloem"),
        "host": socket.gethostname(),
        "cores": cores,
    }


def _sharing(greetings: Mapping[int, Mapping[str, Any]], rank: int) -> int:
    """How many ranks, this one included, use its processors."""
    own = greetings[rank]
    return sum(
        other["host"] == own["host"] and (other["cores"] == own["cores"] or bool({*other["cores"]} & {*own["cores"]}))
        for other in greetings.values()
    )


def _first_line(problem: Exception) -> str:
    return printable((str(problem).strip().splitlines() or [type(problem).__name__])[0])[:200]


def _complain(text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):
        print(f"phloem: {text}", file=sys.stderr, flush=True)
