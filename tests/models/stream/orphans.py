"""A loader whose workers have shipped more than a pipe holds, and nobody reads it: `orphans FOLDER START_METHOD`.

It tells the workers' process ids, and waits for its end.
"""

import multiprocessing
import sys
import time

from models.stream.loader import Loader
from models.stream.open import open_split


def large(rows):
    return "x" * 200_000


if __name__ == "__main__":
    from tests.models.stream.orphans import large  # by a name that other processes can import

    multiprocessing.set_start_method(sys.argv[2], force=True)
    split = open_split(sys.argv[1], "train", ("input_ids",))
    batches = iter(Loader(split, 8, workers=2, collate=large))
    next(batches)
    time.sleep(0.5)
    print(*(child.pid for child in multiprocessing.active_children()), flush=True)
    time.sleep(300)
