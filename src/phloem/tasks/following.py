"""What a rank other than 0 does in a run of `phloem infer`: its share of every step, of draws and of chains."""

from pathlib import Path
from typing import NoReturn

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
from phloem.storage.arrays import Sealed
from phloem.tasks.run_files import INFER_RUNS, InferCheckpoint, restore_training
from phloem.threads import single_threaded_products

BEGIN = "begin"  # with a checkpoint: the steps after it come next


def begin(ranks: Ranks, checkpoint: InferCheckpoint, training: Training) -> None:
    """From rank 0: share out the steps after a checkpoint, and what comes after them."""
    if ranks.size > 1:
        arrays, texts = pack_checkpoint(INFER_RUNS, checkpoint)
        ranks.tell(BEGIN, Parcel({"texts": texts}, arrays))
    training.ranks = ranks


def follow(ranks: Follower, threads: int | None) -> NoReturn:
    """Do what rank 0 asks for, until it lets this process end. threads: by default those that are this rank's."""
    own_threads = threads or ranks.threads or 1
    training: Training | None = None
    try:
        with single_threaded_products():
            for name, parcel in ranks.requests():
                if name == BEGIN:
                    training = _training(parcel, ranks, own_threads)
                    continue
                assert training is not None
                model, target = training.model, training.target
                if name == STEP:
                    training.step()
                elif name == PARAMETERS:
                    take_parameters(model, parcel)
                elif name == DRAWING.name:
                    drawn = draw_part(model, target, DRAWING.unpack_request(parcel))
                    ranks.answer(DRAWING.pack_result(drawn))
                elif name == ANNEALING.name:
                    annealed = anneal_part(model, NoiseSpace.of(model, target), ANNEALING.unpack_request(parcel))
                    ranks.answer(ANNEALING.pack_result(annealed))
                elif name == CHAINS.name:
                    paths = run_part(target, CHAINS.unpack_request(parcel), threads=own_threads)
                    ranks.answer(CHAINS.pack_result(paths))
    except PhloemError as problem:
        ranks.fail(str(problem))
    except MemoryError:
        ranks.fail("not enough memory. Use fewer processes on its host.")
    except Exception as problem:  # a defect, which rank 0 cannot know of
        ranks.fail(f"{type(problem).__name__}: {problem}")
    raise AssertionError("requests end with the process")


def _training(parcel: Parcel, ranks: Follower, threads: int) -> Training:
    found = Sealed(dict(parcel.arrays), parcel.values["texts"])
    checkpoint = unpack_checkpoint(INFER_RUNS, found, Path("rank 0"))
    training = restore_training(checkpoint, checkpoint.inputs.target(checkpoint.config, threads))
    training.ranks = ranks
    return training
