"""The split by time, and loaders of whole batches whose order is a pure function of seed and step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from tsformer.batch import Batch
from tsformer.data.panel import Panel
from tsformer.data.windows import Windows

# Above this many windows an epoch draws them one by one: a permutation would cost more than the batches.
MAX_PERMUTATION = 2**22
# An epoch is what lies between two validations: in a small data set several passes, or training would end before it
# has begun.
MIN_STEPS_PER_EPOCH = 50


def split_rows(lengths: np.ndarray, validation_size: float | int) -> np.ndarray:
    """Return how many rows of each series are for training: all but the last part by time.

    Parameters
    ----------
    lengths
        (N,) rows of each series.
    validation_size
        Share (float) or number of steps (int) held out; 0: none. A series of three rows or more gives at least one
        and keeps at least two; a shorter one gives none.

    Returns
    -------
    (N,) int64.

    Raises
    ------
    ValueError
        When not even the longest series keeps a row for training.

    Examples
    --------
    >>> split_rows(np.array([100, 5, 2]), 0.1).tolist()
    [90, 4, 2]
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    if not validation_size:
        return lengths
    is_share = isinstance(validation_size, float)
    longest = int(lengths.max())
    if validation_size >= (1 if is_share else max(longest, 3)):
        raise ValueError(
            f"validation_size={validation_size} leaves nothing to train on: the longest series has {longest} rows. "
            f"It is a share below 1, or a number of steps"
        )
    wanted = np.round(lengths * validation_size).astype(np.int64) if is_share else int(validation_size)
    held_out = np.where(lengths >= 3, np.clip(wanted, 1, np.maximum(lengths - 2, 1)), 0)
    return lengths - held_out


def check_weighted(panel: Panel, train_end: np.ndarray) -> None:
    """Raise a ValueError when all rows on one side of the split (N,), where there are any, have weight 0."""
    if panel.weight is None:
        return
    for name, part in (("training", panel.rows(0, train_end)), ("validation", panel.rows(train_end, panel.lengths))):
        if part.weight is not None and len(part.weight) and not part.weight.any():
            raise ValueError(
                f"every row for {name} has weight 0: change validation_size, or give some of these rows a weight"
            )


class WindowBatches(Dataset[Batch]):
    """Training batches by their global number: epoch ``i // steps_per_epoch``, each a fresh order of the windows.

    Parameters
    ----------
    windows
        What to draw from.
    batch_size
        Windows in a batch, at most all there are.
    max_steps_per_epoch
        An epoch is one pass over all windows, cut to this many batches; where that is less than
        ``MIN_STEPS_PER_EPOCH`` batches, several passes.
    seed
        With the number of a batch, all that its windows depend on.
    """

    def __init__(self, windows: Windows, batch_size: int, max_steps_per_epoch: int, seed: int) -> None:
        self.windows, self.batch_size, self.seed = windows, min(batch_size, len(windows)), seed
        one_pass = math.ceil(len(windows) / self.batch_size)
        self.steps_per_epoch = min(max_steps_per_epoch, max(one_pass, MIN_STEPS_PER_EPOCH))
        wanted = self.steps_per_epoch * self.batch_size
        self._passes = 1 if one_pass >= self.steps_per_epoch else math.ceil(wanted / len(windows))
        self._epoch, self._order = -1, np.empty(0, dtype=np.int64)

    def __getitem__(self, i: int) -> Batch:
        return self.windows.batch(self.index(i))

    def index(self, i: int) -> np.ndarray:
        """Return the window numbers of batch ``i``, (B,) int64; the last batch of a pass may be smaller."""
        epoch, step = divmod(i, self.steps_per_epoch)
        if len(self.windows) > MAX_PERMUTATION:
            return np.random.default_rng([self.seed, epoch, step]).integers(len(self.windows), size=self.batch_size)
        if epoch != self._epoch:
            generator = np.random.default_rng([self.seed, epoch])
            self._epoch = epoch
            self._order = np.concatenate([generator.permutation(len(self.windows)) for _ in range(self._passes)])
        return self._order[step * self.batch_size : (step + 1) * self.batch_size]


class EvaluationBatches(Dataset[Batch]):
    """Every window once, in order; the last batch may be smaller."""

    def __init__(self, windows: Windows, batch_size: int) -> None:
        self.windows, self.batch_size = windows, batch_size

    def __len__(self) -> int:
        return math.ceil(len(self.windows) / self.batch_size)

    def __getitem__(self, i: int) -> Batch:
        if not 0 <= i < len(self):
            raise IndexError(i)
        return self.windows.batch(np.arange(i * self.batch_size, min((i + 1) * self.batch_size, len(self.windows))))


class EpochSampler(Sampler[int]):
    """Global batch numbers of one epoch.

    Where several processes train together (``torch.distributed``), each takes its share of them: all the same number,
    the first ones twice if need be.

    Parameters
    ----------
    steps_per_epoch
        Batches of an epoch over all processes.
    """

    def __init__(self, steps_per_epoch: int) -> None:
        self.steps_per_epoch = steps_per_epoch
        self.epoch = 0

    def __len__(self) -> int:
        return math.ceil(self.steps_per_epoch / _process()[1])

    def __iter__(self) -> Iterator[int]:
        rank, n_processes = _process()
        first = self.epoch * self.steps_per_epoch
        for step in range(len(self)):
            yield first + (step * n_processes + rank) % self.steps_per_epoch

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next pass draws."""
        self.epoch = epoch


def training_loader(
    windows: Windows,
    *,
    batch_size: int,
    max_steps_per_epoch: int,
    seed: int,
    num_workers: int = 0,
) -> DataLoader[Batch]:
    """Return the loader of one epoch of training batches; ``loader.sampler.set_epoch`` chooses which.

    Parameters
    ----------
    windows
        What to draw from; with workers, on the CPU.
    batch_size, max_steps_per_epoch, seed
        As in `WindowBatches`.
    num_workers
        Processes that cut batches beside the training; the batches are the same.
    """
    batches = WindowBatches(windows, batch_size, max_steps_per_epoch, seed)
    return DataLoader(
        batches,
        batch_size=None,
        sampler=EpochSampler(batches.steps_per_epoch),
        num_workers=num_workers,
        collate_fn=_as_it_is,
        persistent_workers=num_workers > 0,
        generator=torch.Generator().manual_seed(seed),  # or the loader would draw from the global random state
    )


def evaluation_loader(windows: Windows, batch_size: int) -> DataLoader[Batch]:
    """Return a loader of every window once, in order, none dropped."""
    batches = EvaluationBatches(windows, batch_size)
    return DataLoader(batches, batch_size=None, collate_fn=_as_it_is, generator=torch.Generator().manual_seed(0))


def _process() -> tuple[int, int]:
    """Return the rank of this process, and how many there are; known only once the training has begun."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def _as_it_is(batch: Any) -> Any:
    """Return the batch: it is whole already. A function with a name, so that spawned workers find it."""
    return batch
