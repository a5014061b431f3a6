"""Two processes that leave while their last exchange is under way; with `fails`, the second one by an error."""

import sys
import time

import torch
from torch import distributed, nn

from models.ranks import joined


def leave(fails: bool) -> None:
    with joined(threads=1, deterministic=True) as ranks:
        model = ranks.shared(nn.Linear(2, 1))
        model(torch.ones(1, 2)).sum().backward()
        if ranks.first:
            time.sleep(0.3)
        distributed.all_reduce(torch.ones(1), async_op=True)
        if fails and not ranks.first:
            raise ValueError("the second fails")


leave("fails" in sys.argv)
