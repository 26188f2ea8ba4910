"""What a rank other than 0 does in a run of `phloem infer`: its share of every step, of draws and of chains."""

from pathlib import Path
from typing import NoReturn

from phloem.config import InferConfig
from phloem.config.infer import INFER
from phloem.errors import PhloemError
from phloem.inference.annealing import ANNEALING, anneal_part
from phloem.inference.chains import CHAINS, run_part
from phloem.inference.evaluation import draw_part
from phloem.inference.moves import NoiseSpace
from phloem.inference.sharing import DRAWING, PARAMETERS, STEP, take_parameters
from phloem.inference.training import Training
from phloem.runs.checkpoints import pack_checkpoint, unpack_checkpoint
from phloem.runs.meeting import Follower
from phloem.runs.ranks import Parcel, Ranks
from phloem.runs.wires import Message
from phloem.storage.arrays import Sealed
from phloem.target.posterior import TreePosterior
from phloem.tasks.run_files import (
    INFER_RUNS,
    InferCheckpoint,
    build_target,
    pack_data,
    restore_training,
    unpack_data,
)
from phloem.threads import single_threaded_products

# What rank 0 tells the others: the target that chains explore, and a checkpoint, whose next steps come then.
TARGET, BEGIN = "target", "begin"
FROM_RANK_0 = Path("rank 0")


def share_target(ranks: Ranks, target: TreePosterior, config: InferConfig) -> None:
    """From rank 0: share out what chains find of the target that the settings describe."""
    if ranks.size > 1:
        arrays, texts = pack_data(target.likelihood.patterns, target.constraints)
        ranks.tell(TARGET, Parcel({"texts": texts, "config": INFER.to_toml(config)}, arrays))


def begin(ranks: Ranks, checkpoint: InferCheckpoint, training: Training) -> None:
    """From rank 0: share out the steps after a checkpoint, and what comes after them."""
    if ranks.size > 1:
        arrays, texts = pack_checkpoint(INFER_RUNS, checkpoint)
        ranks.tell(BEGIN, Parcel({"texts": texts}, arrays))
    training.ranks = ranks


def follow(ranks: Follower, threads: int | None) -> NoReturn:
    """Do what rank 0 asks for, until it lets this process end. threads: by default this rank's share of cores."""
    work = _Work(ranks, threads or ranks.cores())
    try:
        with single_threaded_products():
            for message in ranks.requests():
                work.do(message)
    except PhloemError as problem:
        ranks.fail(str(problem))
    except MemoryError:
        ranks.fail("not enough memory. Start fewer processes on its host.")
    except Exception as problem:  # a defect: rank 0 tells of it, in a line
        ranks.fail(f"{type(problem).__name__}: {problem}")
    raise AssertionError("requests end with the process")


class _Work:
    """What a follower has been given, and what it does with it."""

    target: TreePosterior
    training: Training

    def __init__(self, ranks: Follower, threads: int) -> None:
        self._ranks = ranks
        self._threads = threads

    def do(self, message: Message) -> None:
        """Do one thing."""
        name, parcel = message
        if name == TARGET:
            config = INFER.read_record(parcel.values["config"], str(FROM_RANK_0))
            patterns, constraints = unpack_data(Sealed(dict(parcel.arrays), parcel.values["texts"]))
            self.target = build_target(patterns, config, self._threads, constraints=constraints)
        elif name == BEGIN:
            found = Sealed(dict(parcel.arrays), parcel.values["texts"])
            checkpoint = unpack_checkpoint(INFER_RUNS, found, FROM_RANK_0)
            self.target = checkpoint.inputs.target(checkpoint.config, self._threads)
            self.training = restore_training(checkpoint, self.target)
            self.training.ranks = self._ranks
        elif name == STEP:
            self.training.step()
        elif name == PARAMETERS:
            take_parameters(self.training.model, parcel)
        else:
            self._ranks.answer(self._result(name, parcel))

    def _result(self, name: str, parcel: Parcel) -> Parcel:
        if name == CHAINS.name:
            return CHAINS.pack_result(run_part(self.target, CHAINS.unpack_request(parcel), threads=self._threads))
        model = self.training.model
        if name == DRAWING.name:
            return DRAWING.pack_result(draw_part(model, self.target, DRAWING.unpack_request(parcel)))
        assert name == ANNEALING.name, name
        space = NoiseSpace.of(model, self.target)
        return ANNEALING.pack_result(anneal_part(model, space, ANNEALING.unpack_request(parcel)))
