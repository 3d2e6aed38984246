"""What is measured in a process of its own: the memory of a training, and the way from a frame to the first batch.

python benchmarks/speed/jobs.py NAME ARGUMENTS     # one line of JSON
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import references
import torch

from speed import ours, peers
from speed.measure import clock, timed

MIB = 2**20


def resident(what: str) -> int:
    """Return a line of /proc/self/status in bytes: VmRSS, or VmHWM, its peak since `forget`."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(what):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {what} in /proc/self/status: memory is measured on Linux only")


def peak(work: Callable[[], object]) -> float:
    """Return the MiB that a call adds at its peak to what was there before it."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak starts again from here
    before = resident("VmRSS")
    work()
    return (resident("VmHWM") - before) / MIB


# ------------------------------------------------------------------ memory of a training


def memory(who: str, steps: str) -> dict[str, float]:
    """Peak of a training of a few steps over what the imports took."""
    n = int(steps)
    import tsformer.training.trainer  # noqa: F401  # Lightning, which `fit` would load

    maker = {"bare": _train_bare, "tsformer": _train_tsformer, "transformers": _train_hf, "darts": _train_darts}
    maker["neuralforecast"] = _train_neuralforecast
    train = maker[who]()
    frame = ours.wide_frame()
    return {"mib": peak(lambda: train(frame, n))}


Training = Callable[[pd.DataFrame, int], object]


def _train_bare() -> Training:
    def train(frame: pd.DataFrame, n: int) -> None:
        model = references.BareTransformer().train()
        optimizer = torch.optim.AdamW(model.parameters())
        values = torch.from_numpy(frame.to_numpy(np.float32))
        for begin in torch.randint(len(frame) - 2 * ours.LENGTH, (n, ours.WINDOWS)):
            windows = values[begin[:, None] + torch.arange(2 * ours.LENGTH)]
            references.train_step(model, optimizer, windows[:, : ours.LENGTH], windows[:, ours.LENGTH :])

    return train


def _train_tsformer() -> Training:
    return lambda frame, n: ours.forecaster(n).fit(frame)


def _train_hf() -> Training:
    import transformers.models.time_series_transformer.modeling_time_series_transformer  # noqa: F401

    def train(frame: pd.DataFrame, n: int) -> None:
        model, inputs = peers.hf_model().train(), peers.hf_batch(future=True)
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(n):
            loss = model(**inputs).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return train


def _train_darts() -> Training:
    import darts.models  # noqa: F401

    return lambda frame, n: peers.darts_model(steps=n).fit(peers.darts_series(frame))


def _train_neuralforecast() -> Training:
    import neuralforecast.models  # noqa: F401

    sizes = peers.neuralforecast_sizes()
    return lambda frame, n: peers.neuralforecast_model(steps=n, **sizes).fit(peers.as_long(frame))


# ------------------------------------------------------------------ from a frame to the first batch


def data(who: str, n_series: str, n_steps: str) -> dict[str, float]:
    """Seconds and memory from a long frame in memory to the first batch, and milliseconds of one more batch."""
    reach = {"numpy": _numpy, "tsformer": _tsformer, "neuralforecast": _neuralforecast, "darts": _darts}[who]
    reach(ours.long_frame(4, 1000))  # imports, and whatever is set up once
    frame = ours.long_frame(int(n_series), int(n_steps))
    found: dict[str, Any] = {}

    def work() -> None:
        begin = clock()
        found["more"] = reach(frame)
        found["seconds"] = clock() - begin

    mib = peak(work)
    more = found["more"]
    return {
        "seconds": found["seconds"],
        "mib": mib,
        "batch_ms": 1000 * float(np.median([timed(more) for _ in range(21)])),
    }


More = Callable[[], object]


def _numpy(frame: pd.DataFrame) -> More:
    """Codes, a check of the order, offsets, and a gather: the least there is to do."""
    codes, ids = pd.factorize(frame["unique_id"])
    stamps, values = frame["ds"].to_numpy(), frame["y"].to_numpy()
    same = codes[1:] == codes[:-1]
    assert ((stamps[1:] > stamps[:-1]) | ~same).all()
    begins = np.searchsorted(codes, np.arange(len(ids) + 1))
    generator, window = np.random.default_rng(0), np.arange(2 * ours.LENGTH)

    def more() -> np.ndarray:
        series = generator.integers(len(ids), size=ours.WINDOWS)
        room = begins[series + 1] - begins[series] - 2 * ours.LENGTH
        return values[(begins[series] + generator.integers(room))[:, None] + window]

    more()
    return more


def _tsformer(frame: pd.DataFrame) -> More:
    from lightning.pytorch.callbacks import Callback

    loaders: list[Any] = []

    class Take(Callback):
        def on_train_batch_start(self, trainer: Any, *args: Any) -> None:
            loaders.append(trainer.train_dataloader)
            raise peers.Reached

    _until_reached(lambda: ours.forecaster(1, callbacks=[Take()]).fit(frame))
    batches, number = loaders[0].dataset, iter(range(1, 10**6))
    return lambda: batches[next(number)]


def _neuralforecast(frame: pd.DataFrame) -> More:
    from pytorch_lightning.callbacks import Callback

    found: list[Any] = []

    class Take(Callback):
        def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, *args: Any) -> None:
            found.extend([module, batch])
            raise peers.Reached

    sizes = peers.neuralforecast_sizes() | dict(batch_size=ours.WINDOWS)
    _until_reached(lambda: peers.neuralforecast_model(callback=Take(), **sizes).fit(frame))
    module, batch = found
    return lambda: module._create_windows(batch, step="train")


def _darts(frame: pd.DataFrame) -> More:
    from darts import TimeSeries
    from pytorch_lightning.callbacks import Callback

    loaders: list[Any] = []

    class Take(Callback):
        def on_train_batch_start(self, trainer: Any, *args: Any) -> None:
            loaders.append(trainer.train_dataloader)
            raise peers.Reached

    def fit() -> None:
        series = TimeSeries.from_group_dataframe(frame, group_cols="unique_id", time_col="ds", value_cols="y")
        peers.darts_model(callback=Take()).fit(series)

    _until_reached(fit)
    batches = iter(loaders[0])
    return lambda: next(batches)


def _until_reached(fit: Callable[[], object]) -> None:
    """Call a training that ends at its first batch."""
    try:
        fit()
    except peers.Reached:
        return
    raise RuntimeError("the training ended without a batch")


if __name__ == "__main__":
    torch.set_num_threads(1)
    peers.hush()
    job, *arguments = sys.argv[1:]
    print(json.dumps({"memory": memory, "data": data}[job](*arguments)))
