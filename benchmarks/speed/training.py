"""Training: windows a second of the same network, and what ``fit`` adds to the bare loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import references
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from speed import ours, peers
from speed.measure import Table, alternate, clock, timed
from tsformer.training.compiling import compiler

BARE = "nn.Transformer, bare loop"
# Parameters may differ by what the heads and embeddings of the libraries hold beside the layers.
TOLERANCE = 0.05


@dataclass
class Contender:
    """Someone who can train: ``train(n)`` returns the mean seconds of n steps."""

    train: Callable[[int], float]
    network: nn.Module
    decoder_layer: nn.Module
    once: Callable[[], object]
    channels: int = ours.CHANNELS
    note: str = ""

    def sizes(self) -> dict[str, Any]:
        """Count parameters, and the positions that the decoder computes in one training step."""
        seen: list[int] = []
        hook = self.decoder_layer.register_forward_hook(
            lambda module, inputs, output: seen.append(
                max((output[0] if isinstance(output, tuple) else output).shape[:2])
            )
        )
        self.once()
        hook.remove()
        parameters = sum(p.numel() for p in self.network.parameters() if p.requires_grad)
        return {"parameters": parameters, "decoder_positions": seen[0], "channels": self.channels}


def measure(quick: bool, names: list[str]) -> dict[str, Any]:
    """Return tables of training, and of the sizes that they compare."""
    peers.hush()
    rounds, steps = (1, 2) if quick else (5, 5)
    tables, sizes = [], {}
    for dropout in (0.1, 0.0):
        contenders = build(dropout, names, quick)
        if dropout:
            sizes = {who: contender.sizes() for who, contender in contenders.items()}
            check(sizes)
        tasks = {who: lambda c=contender: 1000 * c.train(steps) for who, contender in contenders.items()}
        table = Table(f"a training step at dropout {dropout:g}", "ms", BARE, rate=("windows/s", 1000 * ours.WINDOWS))
        table.samples = alternate(tasks, rounds, warmup=not quick)
        table.notes = {who: contender.note for who, contender in contenders.items()}
        tables.append(table)
    rate, work = matmul_rate(), work_of_a_window()
    return {
        "tables": [table.to_dict() for table in [*tables, overhead(quick)]],
        "sizes": sizes,
        "facts": {
            "matmul rate of one thread, GFLOP/s": round(rate / 1e9, 1),
            "work of a window, forward and backward, MFLOP": round(work / 1e6, 1),
            "windows/s if nothing but matmuls took time": round(rate / work, 1),
        },
    }


def build(dropout: float, names: list[str], quick: bool) -> dict[str, Contender]:
    """Return us, the bare loop, and those of the peers that are installed."""
    contenders = {BARE: bare(dropout), "tsformer, fit": tsformer(dropout)}
    if dropout and not quick and can_compile():  # which takes minutes
        contenders["tsformer, fit, compiled"] = tsformer(dropout, compile=True)
    makers = {"transformers": ("Hugging Face, bare loop", hugging_face), "darts": ("darts, fit", darts)}
    makers["neuralforecast"] = ("neuralforecast, fit", neuralforecast)
    return contenders | {makers[name][0]: makers[name][1](dropout) for name in names}


def loop(step: Callable[[], object]) -> Callable[[int], float]:
    """Return the loop over a step that gives the mean of its seconds."""

    def train(n: int) -> float:
        begin = clock()
        for _ in range(n):
            step()
        return (clock() - begin) / n

    return train


def bare(dropout: float) -> Contender:
    """torch's own, as everybody writes it."""
    torch.manual_seed(0)
    model = references.BareTransformer(dropout=dropout).train()
    optimizer = torch.optim.AdamW(model.parameters())
    values = ours.batch()
    context, target = values.context.float(), values.target.float()

    def step() -> None:
        references.train_step(model, optimizer, context, target)

    return Contender(loop(step), model, model.transformer.decoder.layers[0], step)


def can_compile() -> bool:
    """Whether there is a compiler for ``torch.compile``."""
    try:
        with compiler(torch.device("cpu")):
            return True
    except ValueError:
        return False


def tsformer(dropout: float, *, compile: bool = False) -> Contender:
    """Ours, inside ``fit``: loading, checks, optimiser and Lightning are in the step.

    Compiling is not: the round before the first that counts has done it.
    """
    from lightning.pytorch.callbacks import Callback

    frame = ours.wide_frame()

    def train(n: int) -> float:
        marks = peers.stamps(Callback)
        ours.forecaster(n + 1, dropout, callbacks=[marks], compile=compile).fit(frame)
        return marks.mean()

    network = ours.network(dropout).train()
    return Contender(train, network, network.decoder.layers[0], ours.train_step(network, ours.batch()))


def hugging_face(dropout: float) -> Contender:
    """It has no ``fit`` without a further package: the bare loop around its loss."""
    model = peers.hf_model(dropout=dropout).train()
    optimizer = torch.optim.AdamW(model.parameters())
    inputs = peers.hf_batch(future=True)

    def step() -> None:
        loss = model(**inputs).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return Contender(loop(step), model, model.model.decoder.layers[0], step)


def darts(dropout: float) -> Contender:
    """Inside its ``fit``."""
    from pytorch_lightning.callbacks import Callback

    series = peers.darts_series()

    def train(n: int) -> float:
        marks = peers.stamps(Callback)
        peers.darts_model(dropout=dropout, steps=n + 1, callback=marks).fit(series)
        return marks.mean()

    model = peers.darts_model(dropout=dropout, steps=1)
    model.fit(series)
    layer = model.model.transformer.decoder.layers[0]
    return Contender(train, model.model, layer, lambda: model.fit(series))


def neuralforecast(dropout: float) -> Contender:
    """Inside its ``fit``; its windows have one channel, and its decoder half the context beside the horizon."""
    from pytorch_lightning.callbacks import Callback

    frame = peers.as_long(ours.wide_frame())
    sizes = peers.neuralforecast_sizes(dropout)

    def train(n: int) -> float:
        marks = peers.stamps(Callback)
        peers.neuralforecast_model(steps=n + 1, callback=marks, **sizes).fit(frame)
        return marks.mean()

    model = peers.neuralforecast_model(**sizes)
    network = model.models[0]
    layer = network.decoder.layers[0]
    note = "one channel a window: seven of its windows hold the values of one of the others'"
    return Contender(train, network, layer, lambda: model.fit(frame), channels=1, note=note)


def check(sizes: dict[str, dict[str, Any]]) -> None:
    """Raise where a contender of as many channels is not as large as the bare loop."""
    expected = sizes[BARE]
    for who, found in sizes.items():
        found["as large"] = found["channels"] == expected["channels"]
        off = abs(found["parameters"] / expected["parameters"] - 1)
        # darts decodes the start token beside the whole horizon, one position more.
        more = found["decoder_positions"] - expected["decoder_positions"]
        if found["as large"] and (off > TOLERANCE or not 0 <= more <= 1):
            raise RuntimeError(f"{who} is no match for {BARE}: {found} against {expected}")


def overhead(quick: bool) -> Table:
    """Measure ``fit`` against forward, backward and optimiser of our own network in a bare loop."""
    rounds, steps = (1, 4) if quick else (7, 8)
    table = Table(
        "a step of our own network at dropout 0.1", "ms", "bare loop", rate=("windows/s", 1000 * ours.WINDOWS)
    )
    model = ours.network().train()
    tasks = {"bare loop": loop(ours.train_step(model, ours.batch())), "fit": tsformer(0.1).train}
    table.samples = alternate({who: lambda t=train: 1000 * t(steps) for who, train in tasks.items()}, rounds)
    return table


def matmul_rate() -> float:
    """Return FLOP/s of a large matmul."""
    a = torch.randn(1024, 1024)
    return 2 * 1024**3 / min(timed(lambda: a @ a) for _ in range(10))


def work_of_a_window() -> float:
    """Return the FLOP of a window, forward and backward, without dropout."""
    model = references.BareTransformer(dropout=0.0).train()
    values = ours.batch(1)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(values.context.float(), values.target.float()).sum().backward()
    return float(counter.get_total_flops())
