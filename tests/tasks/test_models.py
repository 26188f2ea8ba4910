"""From settings to a model: what its first weights depend on, and what is left as it was."""

import torch

from phloem.config import InferConfig
from phloem.tasks.run_files import build_model
from phloem.threads import single_threaded_products
from support.small_posteriors import example

SUPPORT = example("split")[0].network.support


def weights(**settings) -> torch.Tensor:
    model = build_model(SUPPORT, InferConfig(**{"width": 7} | settings))
    return torch.cat([parameter.detach().flatten() for parameter in model.branches.parameters()])


def test_first_weights_depend_on_the_seed_alone():
    first = weights(seed=1)
    torch.manual_seed(99)
    assert torch.equal(weights(seed=1), first)
    assert not torch.equal(weights(seed=2), first)


def test_depth_and_width_are_those_of_the_settings():
    assert len(weights(depth=3)) > len(weights(depth=2))
    assert len(weights(width=9)) > len(weights(width=7))


def test_torchs_own_random_numbers_and_threads_stay_the_users():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    weights()
    assert torch.equal(torch.rand(3), expected)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with single_threaded_products():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
