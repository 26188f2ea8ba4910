"""Products of matrices in numpy arrays by torch, which can be kept to one thread (`single_threaded_products`)."""

import torch

from phloem.kernels.arrays import RealArray


def matrix_product(left: RealArray, right: RealArray) -> RealArray:
    """left @ right. numpy's own products use all cores, whatever else is at work there."""
    product: RealArray = (torch.from_numpy(left) @ torch.from_numpy(right)).numpy()
    return product
