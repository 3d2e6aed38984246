"""Speed on one GPU, within four minutes: results/speed/gpu.json, and its part of docs/speed.md.

    python benchmarks/gpu.py
    python benchmarks/gpu.py --device cpu --tiny --out FOLDER    # its code paths, without a GPU

Training in bf16 against torch's nn.Transformer in a bare loop and against what the card's matmuls would allow, decoding
step by step and as one CUDA graph, batches cut on the device, and the share of time that the card idles.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import references  # noqa: E402
from speed import measure, ours, peers, report  # noqa: E402
from speed.measure import Table, alternate  # noqa: E402
from speed.training import work_of_a_window  # noqa: E402

from tsformer.batch import Batch  # noqa: E402
from tsformer.data.panel import to_panel  # noqa: E402
from tsformer.data.windows import Windows, series_statistics, training_runs  # noqa: E402
from tsformer.nn.attention import KVCache  # noqa: E402
from tsformer.nn.model import ForecastTransformer, Memory  # noqa: E402


class Device:
    """A device with a clock that waits for it.

    Parameters
    ----------
    name
        ``"cuda"`` or ``"cpu"``.
    tiny
        Sizes for a test.
    """

    def __init__(self, name: str, tiny: bool) -> None:
        self.name, self.tiny, self.is_cuda = name, tiny, name == "cuda"
        self.length = 8 if tiny else ours.LENGTH

    def network(self) -> ForecastTransformer:
        """Return ours on the device."""
        return ours.network(context_length=self.length).to(self.name)

    def batch(self, windows: int, horizon: int) -> Batch:
        """Return windows on the device."""
        return ours.batch(windows, horizon, self.length).to(self.name)

    def synchronize(self) -> None:
        """Wait until everything that was asked for is done."""
        if self.is_cuda:
            torch.cuda.synchronize()

    def seconds(self, function: Callable[[], object], times: int = 1) -> float:
        """Return the seconds that a call takes, the mean of several without a pause."""
        self.synchronize()
        begin = time.perf_counter()
        for _ in range(times):
            function()
        self.synchronize()
        return (time.perf_counter() - begin) / times


def main() -> None:
    """Measure what there is a device for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="sizes for a test")
    parser.add_argument("--out", type=Path, help="folder for the results and speed.md, in place of the project's own")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("no GPU here: nothing to measure (--device cpu --tiny runs the code without one)")
        return
    peers.hush()
    device = Device(arguments.device, arguments.tiny)
    rate = matmul_rate(device)
    work = work_of_a_window()
    tables, facts = (
        [],
        {
            "bf16 matmul rate, TFLOP/s": round(rate / 1e12, 2),
            "work of a window, forward and backward, MFLOP": round(work / 1e6, 1),
            "windows/s if nothing but matmuls took time": round(rate / work),
        },
    )
    for windows in (2,) if device.tiny else (32, 512):
        table, idle = training(device, windows)
        tables.append(table)
        reached = 1000 * windows / float(np.median(table.samples["tsformer, fit"]))
        if not device.tiny:
            facts[f"share of that which fit reaches, {windows} windows a batch"] = f"{reached * work / rate:.1%}"
        if idle is not None:
            facts[f"share of time that the card idles in training, {windows} windows a batch"] = f"{idle:.0%}"
    for windows in (1,) if device.tiny else (1, 32, 512):
        tables.append(decoding(device, windows))
    tables.append(loading(device))

    header = measure.header()
    if device.is_cuda:
        header["processor"] = f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}; {header['processor']}"
    result = {"tables": [table.to_dict() for table in tables], "facts": facts, "header": header}
    result |= {"quick": device.tiny, "missing": {}}
    folder = arguments.out or HERE / "results" / "speed"
    page = (arguments.out or HERE.parent / "docs") / "speed.md"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gpu.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    page.write_text(report.page(report.read(folder)), encoding="utf-8")
    print(*map(report.lines, result["tables"]), *(f"{what}: {value}" for what, value in facts.items()), sep="\n")


def matmul_rate(device: Device) -> float:
    """Return FLOP/s of a large matmul in bf16."""
    n = 64 if device.tiny else 8192
    a = torch.randn(n, n, device=device.name, dtype=torch.bfloat16)
    device.seconds(lambda: a @ a, 3)
    return 2 * n**3 / device.seconds(lambda: a @ a, 10)


# ------------------------------------------------------------------ training


def training(device: Device, windows: int) -> tuple[Table, float | None]:
    """Measure training steps in bf16, and the share of time that the card idles in ours."""
    steps, rounds = (2, 1) if device.tiny else (30, 5)
    table = Table(
        f"a training step in bf16, {windows} windows a batch",
        "ms",
        "nn.Transformer, bare loop",
        rate=("windows/s", 1000 * windows),
    )
    network = device.network().train()
    step = autocast(device, ours.train_step(network, device.batch(windows, device.length)))
    tasks = {
        "nn.Transformer, bare loop": autocast(device, bare_step(device, windows)),
        "tsformer, bare loop": step,
    }
    if "transformers" in measure.installed() and not device.tiny:
        tasks["Hugging Face, bare loop"] = autocast(device, hugging_face_step(device, windows))
    timed = {who: lambda f=function: 1000 * device.seconds(f, steps) for who, function in tasks.items()}
    timed["tsformer, fit"] = lambda: 1000 * fit_step(device, windows, steps)
    timed["tsformer, fit, compiled"] = lambda: 1000 * fit_step(device, windows, steps, compile=True)
    table.samples = alternate(timed, rounds)
    return table, idle_share(device, step) if device.is_cuda else None


def autocast(device: Device, step: Callable[[], object]) -> Callable[[], object]:
    """Return the step in bf16."""

    def run() -> None:
        with torch.autocast(device.name, torch.bfloat16):
            step()

    return run


def bare_step(device: Device, windows: int) -> Callable[[], object]:
    """torch's own, as everybody writes it."""
    model = references.BareTransformer().train().to(device.name)
    optimizer = torch.optim.AdamW(model.parameters())
    values = device.batch(windows, device.length)
    context, target = values.context.float(), values.target.float()
    return lambda: references.train_step(model, optimizer, context, target)


def hugging_face_step(device: Device, windows: int) -> Callable[[], object]:
    """The bare loop around its loss."""
    model = peers.hf_model().train().to(device.name)
    optimizer = torch.optim.AdamW(model.parameters())
    inputs = {name: tensor.to(device.name) for name, tensor in peers.hf_batch(windows, future=True).items()}

    def step() -> None:
        loss = model(**inputs).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def fit_step(device: Device, windows: int, steps: int, **options: Any) -> float:
    """Return the mean seconds of a step inside ``fit``, the first left out."""
    from lightning.pytorch.callbacks import Callback

    times: list[float] = []

    class Ends(Callback):
        def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, number: int) -> None:
            if number in (1, steps):
                device.synchronize()
                times.append(time.perf_counter())

    accelerator = "gpu" if device.is_cuda else "cpu"
    changes: dict[str, Any] = dict(accelerator=accelerator, precision="bf16-mixed", batch_size=windows)
    changes |= dict(prediction_length=device.length, context_length=device.length, callbacks=[Ends()], **options)
    ours.forecaster(steps + 1, **changes).fit(ours.wide_frame())
    return (times[1] - times[0]) / (steps - 1)


def idle_share(device: Device, step: Callable[[], object]) -> float:
    """Return the share of the time of some steps in which no kernel runs."""
    from torch.profiler import ProfilerActivity, profile

    n = 20
    seconds = device.seconds(step, n) * n
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        device.seconds(step, n)
    busy = sum(event.self_device_time_total for event in profiler.key_averages()) / 1e6
    return max(0.0, 1 - busy / seconds)


# ------------------------------------------------------------------ decoding


def decoding(device: Device, windows: int) -> Table:
    """Measure the forecast of 96 steps: launched kernel by kernel, and replayed as one graph."""
    horizon = device.length
    table = Table(f"decode {windows} series, {horizon} steps", "ms", "bare cached decoder")
    batch = device.batch(windows, 0)
    bare = references.BareTransformer().eval().to(device.name)
    context = batch.context.float()
    network = device.network().eval()
    tasks = {
        "bare cached decoder": lambda: bare.decode(context, horizon),
        "tsformer": ours.decode(network, batch, horizon),
        "tsformer, steps as one CUDA graph": graphed(device, network, batch, horizon),
    }
    timed = {who: lambda f=function: 1000 * device.seconds(f) for who, function in tasks.items()}
    table.samples = alternate(timed, 1 if device.tiny else 11)
    table.notes["tsformer, steps as one CUDA graph"] = (
        "encoder step by step, then all steps of the decoder in one launch"
    )
    return table


def graphed(device: Device, network: ForecastTransformer, batch: Batch, horizon: int) -> Callable[[], torch.Tensor]:
    """Return the forecast whose decoding is captured once and replayed; held to what it is without."""

    @torch.inference_mode()
    def steps(memory: Memory) -> torch.Tensor:
        caches = [KVCache(horizon) for _ in network.decoder.layers]
        patches = [memory.start]
        for i in range(horizon):
            states = network.decode(patches[-1], None, memory, first=i, caches=caches)
            patches.append(network.head.point(network.head(states, memory.unit)))
        return torch.cat(patches[1:], 1)

    with torch.inference_mode():
        memory = network.encode(batch, horizon)
        expected = steps(memory)
    if device.is_cuda:
        graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.inference_mode():
            steps(memory)
        torch.cuda.current_stream().wait_stream(side)
        with torch.inference_mode(), torch.cuda.graph(graph):
            result = steps(memory)

    @torch.inference_mode()
    def run() -> torch.Tensor:
        fresh = network.encode(batch, horizon)
        for kept, new in zip(memory.keys_values, fresh.keys_values, strict=True):
            kept.keys.copy_(new.keys)
            kept.values.copy_(new.values)
        memory.start.copy_(fresh.start)
        if not device.is_cuda:
            return network.patching.join(steps(memory), ours.CHANNELS)
        graph.replay()
        return fresh.scale.restore(network.patching.join(result, ours.CHANNELS))

    if device.is_cuda:
        run()
        torch.testing.assert_close(result, expected)
    return run


# ------------------------------------------------------------------ batches


def loading(device: Device) -> Table:
    """Measure a batch of 512 windows: cut on the host and copied, and cut on the device by index arithmetic."""
    n_series, n_windows = (10, 4) if device.tiny else (10_000, 512)
    panel = to_panel(ours.long_frame(n_series, 500))
    runs = training_runs(panel.lengths, device.length, device.length)
    size = dict(context_length=device.length, horizon=device.length)
    windows = Windows(panel, *runs, **size, statistics=series_statistics(panel))
    generator = np.random.default_rng(0)
    values = torch.from_numpy(panel.values).to(device.name)
    steps = torch.arange(2 * device.length, device=device.name)

    def draw() -> np.ndarray:
        return generator.integers(len(windows), size=n_windows)

    def on_device() -> torch.Tensor:
        series, cutoffs = windows.locate(draw())
        begin = torch.from_numpy(panel.indptr[series] + cutoffs - device.length).to(device.name, non_blocking=True)
        return values[begin[:, None] + steps]

    tasks = {
        "cut on the host, copied": lambda: windows.batch(draw()).to(device.name),
        "cut on the device, values alone": on_device,
    }
    table = Table(f"a batch of {n_windows} windows on the device", "ms", "cut on the host, copied")
    table.samples = alternate(
        {who: lambda f=function: 1000 * device.seconds(f, 5) for who, function in tasks.items()},
        2 if device.tiny else 11,
    )
    return table


if __name__ == "__main__":
    main()
