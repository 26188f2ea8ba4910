"""One of many loci: an ordinary run, in a worker process, and the record of what came of it."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from phloem.config.infer import INFER
from phloem.interrupts import held
from phloem.runs.checkpoints import CheckpointInterval
from phloem.runs.directory import claimed
from phloem.runs.driver import RunOptions, RunRequest
from phloem.runs.events import Progress
from phloem.storage.files import read_bytes
from phloem.tasks.compare import log_marginal_likelihood
from phloem.tasks.infer import InferRequest, run_inference
from phloem.tasks.loci_files import LociDirectory, Record, hash_of_file
from phloem.tasks.posterior import Posterior, sample_posterior, summary_trees
from phloem.tasks.run_files import infer_run
from phloem.trees.writing import format_labelled, write_mrbayes


def infer_locus(task: Mapping[str, Any], progress: Progress) -> Mapping[str, Any]:
    """Begin the run of a locus, or resume it; the result is its record, which is also in its file."""
    name, source = task["name"], Path(task["source"])
    loci = LociDirectory(Path(task["directory"]))
    run = infer_run(loci.run(name))
    before = loci.record(name)
    if before is not None and before.status == "replaced":
        if run.holds_run():
            with claimed(run, force=True) as replaced:
                replaced.clear()
        before = None
        loci.forget(name)
    seconds = 0.0 if before is None else before.seconds
    config = INFER.read_record(read_bytes(loci.settings).decode(), str(loci.settings))
    options = RunOptions(task["threads"], CheckpointInterval(*task["interval"]))
    request = InferRequest(
        source,
        RunRequest(run.path, resume=run.holds_run(), command=task["command"], options=options),
        base=replace(config, seed=task["seed"]),
        long_names=task["long_names"],
    )
    began = time.monotonic()
    sha256 = hash_of_file(source)
    try:
        posterior = run_inference(request, progress)
    except KeyboardInterrupt:
        spent = round(seconds + time.monotonic() - began, 1)
        with held():
            loci.keep(Record(name, str(source), sha256, "stopped", seconds=spent))
        raise
    record = _record_of(posterior, Record(name, str(source), sha256, "done", seconds=seconds))
    with held():
        write_mrbayes(sample_posterior(posterior).trees, loci.trees(name))
        record = replace(record, seconds=round(seconds + time.monotonic() - began, 1))
        loci.keep(record)
    return record.as_json()


def _record_of(posterior: Posterior, begun: Record) -> Record:
    likelihood = log_marginal_likelihood(posterior)
    trees = summary_trees(posterior)
    return replace(
        begun,
        taxa=len(posterior.taxa),
        sites=posterior.alignment.site_count,
        log_marginal_likelihood=likelihood.value,
        error=likelihood.error,
        verdict=posterior.trust.level,
        message="" if posterior.trust.level == "good" else posterior.trust.advice,
        consensus=format_labelled(trees["majority_rule"]),
        credible=format_labelled(trees["maximum_clade_credibility"]),
    )
