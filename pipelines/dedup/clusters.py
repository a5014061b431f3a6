"""Clusters of documents: what pairs tie together, directly or through others."""

from __future__ import annotations

import numpy as np

from pipelines.ragged import Ints


def join(labels: Ints, left: Ints, right: Ints) -> Ints:
    """Labels after each left[i] and right[i] have been tied together: the smallest member of each cluster.

    `labels` int64[N] give for each of N members the smallest one of its cluster before (itself at first). The
    result depends on which pairs there are, not on their order. Rounds of hooking larger roots below smaller ones
    and of shortening all paths (after Shiloach & Vishkin, 1982): logarithmically many in practice.
    """
    labels = labels.copy()
    while True:
        low, high = labels[left], labels[right]
        apart = low != high
        if not apart.any():
            return labels
        left, right, low, high = left[apart], right[apart], low[apart], high[apart]
        np.minimum.at(labels, np.maximum(low, high), np.minimum(low, high))
        while True:
            shorter = labels[labels]
            if (shorter == labels).all():
                break
            labels = shorter
