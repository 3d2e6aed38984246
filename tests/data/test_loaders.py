import multiprocessing

import numpy as np
import pytest
import torch

from tsformer.data import loaders
from tsformer.data.panel import to_panel
from tsformer.data.windows import Windows, series_statistics, training_runs


def make_windows(n=120, context=8, horizon=4):
    panel = to_panel(np.arange(n * 2.0).reshape(n, 2))
    runs = training_runs(panel.lengths, context, horizon)
    return Windows(panel, *runs, context_length=context, horizon=horizon, statistics=series_statistics(panel))


def first_targets(loader):
    return [batch.target[:, 0, 0].tolist() for batch in loader]


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, [100, 10, 3, 2, 1]),
        (0.1, [90, 9, 2, 2, 1]),
        (0.5, [50, 5, 2, 2, 1]),
        (7, [93, 3, 2, 2, 1]),
        (50, [50, 2, 2, 2, 1]),
    ],
)
def test_the_split_holds_out_the_last_rows_of_each_series(size, expected):
    lengths = np.array([100, 10, 3, 2, 1])
    assert loaders.split_rows(lengths, size).tolist() == expected
    assert lengths.tolist() == [100, 10, 3, 2, 1]


def test_an_epoch_is_every_window_once():
    windows = make_windows()
    loader = loaders.training_loader(windows, batch_size=2, max_steps_per_epoch=100, seed=0)
    seen = [value for batch in first_targets(loader) for value in batch]
    assert len(loader) == 55 and sorted(seen) == [2.0 * c for c in range(8, 117)]


def test_an_epoch_of_small_data_is_several_passes():
    windows = make_windows()
    loader = loaders.training_loader(windows, batch_size=200, max_steps_per_epoch=100, seed=0)
    batches = first_targets(loader)
    assert len(batches) == loaders.MIN_STEPS_PER_EPOCH
    assert all(sorted(batch) == [2.0 * c for c in range(8, 117)] for batch in batches)
    assert batches[0] != batches[1]


def test_a_capped_epoch_is_a_random_part_and_epochs_differ():
    loader = loaders.training_loader(make_windows(), batch_size=16, max_steps_per_epoch=3, seed=0)
    first = first_targets(loader)
    assert [len(batch) for batch in first] == [16, 16, 16] and len(set(sum(first, []))) == 48
    loader.sampler.set_epoch(1)
    assert first_targets(loader) != first
    loader.sampler.set_epoch(0)
    assert first_targets(loader) == first


def test_the_order_is_a_function_of_seed_and_step_alone():
    windows = make_windows()
    one, two = (loaders.WindowBatches(windows, 16, 3, seed=5) for _ in range(2))
    expected = [one.index(i).tolist() for i in range(9)]
    assert [two.index(i).tolist() for i in reversed(range(9))][::-1] == expected
    other = loaders.WindowBatches(windows, 16, 3, seed=6)
    assert [other.index(i).tolist() for i in range(9)] != expected


def test_the_global_random_state_is_left_alone():
    torch.manual_seed(3)
    np.random.seed(3)
    before, before_numpy = torch.get_rng_state(), np.random.get_state()[1].copy()
    first_targets(loaders.training_loader(make_windows(), batch_size=16, max_steps_per_epoch=3, seed=0))
    first_targets(loaders.evaluation_loader(make_windows(), 16))
    assert torch.equal(torch.get_rng_state(), before) and np.array_equal(np.random.get_state()[1], before_numpy)


def test_very_many_windows_are_drawn_without_a_permutation(monkeypatch):
    monkeypatch.setattr(loaders, "MAX_PERMUTATION", 50)
    batches = loaders.WindowBatches(make_windows(), 16, 4, seed=0)
    drawn = [batches.index(i) for i in range(8)]
    assert all(len(index) == 16 and index.max() < 109 for index in drawn)
    assert np.array_equal(batches.index(5), drawn[5]) and not np.array_equal(drawn[0], drawn[4])
    assert batches._order.size == 0


def test_evaluation_is_in_order_and_drops_nothing():
    loader = loaders.evaluation_loader(make_windows(), 16)
    batches = first_targets(loader)
    assert len(loader) == 7 and [len(batch) for batch in batches] == [16] * 6 + [13]
    assert sum(batches, []) == [2.0 * c for c in range(8, 117)]


def test_processes_share_an_epoch_and_have_equally_many_batches(monkeypatch):
    parts = []
    for rank in range(2):
        monkeypatch.setattr(loaders, "_process", lambda rank=rank: (rank, 2))
        parts.append(list(loaders.EpochSampler(7)))
    assert [len(part) for part in parts] == [4, 4] and set(parts[0]) | set(parts[1]) == set(range(7))
    monkeypatch.undo()
    sampler = loaders.EpochSampler(7)
    sampler.set_epoch(2)
    assert list(sampler) == list(range(14, 21))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_give_the_same_batches(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot {method}")
    windows = make_windows()
    settings = {"batch_size": 16, "max_steps_per_epoch": 3, "seed": 0}
    alone = loaders.training_loader(windows, **settings)
    helped = loaders.training_loader(windows, num_workers=1, **settings)
    helped.multiprocessing_context = method
    for epoch in (0, 1):
        alone.sampler.set_epoch(epoch)
        helped.sampler.set_epoch(epoch)
        assert first_targets(helped) == first_targets(alone)
