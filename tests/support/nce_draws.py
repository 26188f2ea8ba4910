"""The trees of a batch for noise contrastive estimation, drawn slowly one by one."""

from phloem.energy.noise import Noise
from phloem.random_streams import RandomStream
from phloem.trees.sample import TreeSample


def drawn_by(sample: TreeSample, noise: Noise, *, size: int, ratio: int, seed: int, step: int):
    """The single trees of a step: by looking each random number up among the sums of the weights."""
    observed = [tree for tree in range(len(sample)) if sample.weights[tree] > 0]
    data = []
    for number in RandomStream(seed, "density/data", step).generator().random(size):
        total = 0.0
        for tree in observed:
            total += sample.weights[tree] / sample.weights.sum()
            if number < total:
                break
        data.append(sample.topologies.parent[tree].tobytes())
    stream = RandomStream(seed, "density/noise", step)
    if noise.listed is not None:
        trees = noise.listed[noise.places(size * ratio, stream=stream)]
    else:
        trees = noise.draw(size * ratio, stream=stream).topologies
    return data, [row.tobytes() for row in trees.parent]
