"""Callbacks of our own: the best weights, and one quiet progress bar."""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import lightning as L  # noqa: N812
import torch
from lightning.pytorch.callbacks import Callback


class BestWeights(Callback):
    """Keep the weights of the best validation error in memory and put them back at the end.

    Lightning's sanity check is the validation of those at the start.
    """

    def __init__(self) -> None:
        self.best = float("inf")
        self.step: int | None = None
        self._weights: dict[str, torch.Tensor] = {}

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Copy the weights if they are the best so far."""
        if trainer.sanity_checking and trainer.num_sanity_val_batches != trainer.num_val_batches:
            return  # an error of some windows, by a wish of the user's, is not to be compared with that of all
        error = float(trainer.callback_metrics["val_loss"])
        if not error < self.best:
            return
        self.best, self.step = error, trainer.global_step
        self._weights = {k: v.detach().clone() for k, v in pl_module.state_dict().items()}

    def on_fit_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Restore them."""
        if self._weights:
            pl_module.load_state_dict(self._weights)


class StopAt(Callback):
    """End the training after a number of optimiser steps.

    The trainer's own ``max_steps`` ends in the middle of an epoch without a validation, so that the last steps
    could never be the best.
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: L.LightningModule, *args: Any) -> None:
        """Ask the trainer to stop."""
        if trainer.global_step >= self.steps:
            trainer.should_stop = True


class Progress(Callback):
    """A single bar over all steps of the training, shown only where it takes longer than ``delay`` seconds.

    Of a training that compiles its first step it says how long that took.
    """

    def __init__(self, delay: float = 2.0) -> None:
        self.delay = delay
        self._bar: Any = None
        self._began = 0.0

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Open the bar."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a notebook without ipywidgets: tqdm falls back to text by itself
            from tqdm.auto import tqdm

        self._bar = tqdm(total=pl_module.total_steps, desc="fit", unit="step", delay=self.delay, leave=False)
        self._began = time.perf_counter()

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, batch_index: int
    ) -> None:
        """Move it to the optimiser step reached."""
        if pl_module.step_is_compiled and batch_index == 0 and trainer.current_epoch == 0:
            seconds = time.perf_counter() - self._began
            self._bar.write(f"fit: compiled, the first step took {seconds:.1f} s", file=sys.stderr)
        if trainer.global_step > self._bar.n:
            self._bar.update(trainer.global_step - self._bar.n)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Show the validation error."""
        if self._bar is not None:
            self._bar.set_postfix(val_loss=f"{float(trainer.callback_metrics['val_loss']):.4f}")

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Close the bar, also after an error."""
        if self._bar is not None:
            self._bar.close()


def wants_bar(verbose: bool | str) -> bool:
    """Whether to show a progress bar: ``"auto"`` shows it in a terminal or a notebook, not in workers or logs."""
    if verbose != "auto":
        return bool(verbose)
    return sys.stderr.isatty() or "ipykernel" in sys.modules
