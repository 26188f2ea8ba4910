# Many loci over a cluster: batches of `phloem infer-many` in one directory, then tables of all.
#
#   snakemake -s workflow/loci.smk --profile workflow/profiles/loci-local --config alignments=genes out=loci
#
# alignments: a directory of alignments. out: where everything goes. flags: those of phloem infer. batch: loci for each
# job of the cluster. jobs: how many of them are at work at a time in it, on as many cores. phloem: the command.

import math
from pathlib import Path

ENDINGS = (".fasta", ".fas", ".fa", ".fna", ".ffn", ".phy", ".phylip", ".nex", ".nexus", ".nxs", ".sto", ".stk", ".aln")
FOLDER = Path(config.get("alignments", "genes"))
OUT = str(config.get("out", "loci"))
FLAGS = str(config.get("flags", ""))
PHLOEM = str(config.get("phloem", "phloem"))
JOBS = int(config.get("jobs", 1))
SIZE = int(config.get("batch", 20))
FILES = sorted(FOLDER.iterdir()) if FOLDER.is_dir() else []
LOCI = [str(path) for path in FILES if path.name.lower().removesuffix(".gz").endswith(ENDINGS)]
if not LOCI:
    raise WorkflowError(f"{FOLDER}: has no alignments. Name their directory with --config alignments=DIR.")


localrules:
    tables,


rule tables:
    input:
        expand(f"{OUT}.batches/{{number}}", number=range(math.ceil(len(LOCI) / SIZE))),
    output:
        f"{OUT}/loci.csv",
    params:
        loci=LOCI,
    shell:
        "{PHLOEM} infer-many {params.loci:q} --out {OUT:q} --jobs 1 --plain {FLAGS} || [ $? -eq 1 ]"


# Exit code 1 is that of loci that failed: they are in the table. A batch that ends otherwise is tried again, and goes
# on where it was.
rule batch:
    input:
        lambda wildcards: LOCI[int(wildcards.number) * SIZE : (int(wildcards.number) + 1) * SIZE],
    output:
        touch(f"{OUT}.batches/{{number}}"),
    threads: JOBS
    retries: 2
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * JOBS * attempt,
        runtime=24 * 60,
    shell:
        "{PHLOEM} infer-many {input:q} --out {OUT:q} --jobs {threads} --threads 1 --plain {FLAGS} || [ $? -eq 1 ]"
