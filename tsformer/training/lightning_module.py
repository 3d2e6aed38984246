"""One training step and one validation step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import lightning as L  # noqa: N812
import torch

from tsformer.batch import Batch
from tsformer.config import TrainingConfig
from tsformer.losses import masked_mean, masked_sum
from tsformer.nn.decoding import rollout, training_outputs
from tsformer.nn.model import ForecastTransformer, Memory
from tsformer.training.augmentation import mixed
from tsformer.training.compiling import MAX_UNROLLED, compiled
from tsformer.training.optim import build_optimizer, schedule_factor


def batch_loss(model: ForecastTransformer, batch: Batch, teacher_forcing: float, detach: bool) -> torch.Tensor:
    """Mean error of a training batch: all that is compiled of a step."""
    outputs, memory = training_outputs(model, batch, teacher_forcing=teacher_forcing, detach=detach)
    return masked_mean(step_errors(model, outputs, batch, memory), batch.target_mask, batch.weight)


class ForecastModule(L.LightningModule):
    """Training of a ``ForecastTransformer`` under Lightning.

    The loss is in units of each series' training deviation, so that every series and channel weighs the same
    and a quiet window is not blown up to the size of a lively one; under ``scaling="asinh"`` it is in scaled units.

    Parameters
    ----------
    model
        The network to train, in place.
    config
        Training configuration.
    """

    def __init__(self, model: ForecastTransformer, config: TrainingConfig) -> None:
        super().__init__()
        self.model = model
        self.config = config
        self.total_steps = 0  # optimiser steps of the whole training, known once the trainer is
        self.history: list[dict[str, float]] = []
        self._train_losses: list[torch.Tensor] = []
        self._errors: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._epoch_began = 0.0
        self._compiled: Callable[..., torch.Tensor] | None = None
        self._compiled_size: int | None = None
        self.step_is_compiled = False

    def on_fit_start(self) -> None:
        """Have the step compiled, in the process and on the device that it runs on."""
        self._compiled = compiled(batch_loss) if self.config.compile else None

    def training_step(self, batch: Batch, batch_index: int) -> torch.Tensor:
        """Loss of one batch under the training mode of this step."""
        teacher_forcing = self.teacher_forcing()
        if self.config.mixup:
            batch = mixed(batch, self.config.mixup, by_channel=self.model.config.n_channels == 1)
        loss_of = self._compiled if self._compiled and self._is_worth_a_graph(batch, teacher_forcing) else batch_loss
        self.step_is_compiled = loss_of is not batch_loss
        loss = loss_of(self.model, batch, teacher_forcing, self.config.detach_rollout)
        self._train_losses.append(loss.detach())
        # Looking at the value stops a GPU until it is there: every step is free on a CPU only.
        if loss.device.type == "cpu" or batch_index % 50 == 0:
            self._check_loss(float(loss.detach()))
        return loss

    def teacher_forcing(self) -> float:
        """Probability that a patch fed in this step is the true one."""
        if self.config.training_mode == "teacher_forcing":
            return 1.0
        if self.config.training_mode == "free_running":
            return 0.0
        begun = self.global_step < self.config.teacher_forcing_share * self.total_steps
        return 1.0 if begun else self.config.teacher_forcing_ratio

    def validation_step(self, batch: Batch, batch_index: int) -> None:
        """Free-running error: what a forecast would score, never the teacher-forced loss.

        Of a distribution the teacher-forced likelihood, which is that of the whole path: the product of each patch's
        given those before it.
        """
        if self.model.head.is_distribution:
            outputs, memory = training_outputs(self.model, batch, teacher_forcing=1.0, detach=True)
        else:
            n_patches = -(-batch.target.shape[1] // self.model.config.patch_length)
            memory = self.model.encode(batch, n_patches)
            outputs = rollout(self.model, memory, n_patches)
        errors = step_errors(self.model, outputs, batch, memory)
        self._errors.append(masked_sum(errors, batch.target_mask, batch.weight))

    def on_validation_epoch_end(self) -> None:
        """Weighted mean over every observed step of every validation window, whatever the batches were."""
        total = torch.stack([e for e, _ in self._errors]).double().sum()
        count = torch.stack([n for _, n in self._errors]).sum()
        self._errors.clear()
        self.log("val_loss", total / torch.where(count > 0, count, 1), sync_dist=True, batch_size=1)

    def on_train_epoch_start(self) -> None:
        """Start the clock of the epoch."""
        self._epoch_began = time.perf_counter()

    def on_train_epoch_end(self) -> None:
        """Write one row of the history."""
        train_loss = torch.stack(self._train_losses).mean()
        self._train_losses.clear()
        self._check_loss(float(train_loss))  # the steps of a GPU that were not looked at
        self.log("train_loss", train_loss, sync_dist=True, batch_size=1)
        row = {
            "epoch": self.current_epoch,
            "step": self.global_step,
            "train_loss": float(train_loss),
            "learning_rate": self.optimizers().param_groups[0]["lr"],  # type: ignore[union-attr]
            "seconds": time.perf_counter() - self._epoch_began,
        }
        if "val_loss" in self.trainer.callback_metrics:
            row["val_loss"] = float(self.trainer.callback_metrics["val_loss"])
        self.history.append(row)

    def configure_optimizers(self) -> Any:
        """Optimiser and schedule, stepped after each batch."""
        self.total_steps = self.config.max_steps or int(self.trainer.estimated_stepping_batches)
        optimizer = build_optimizer(self.model, self.config)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer,
            lambda step: schedule_factor(step, self.config, self.total_steps, self.model.config.d_model),
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def _check_loss(self, loss: float) -> None:
        """Raise a ValueError when the loss is no number, or infinite."""
        if not math.isfinite(loss):
            raise ValueError(
                f"the training loss became {loss} at step {self.global_step}: lower learning_rate "
                f"(now {self.config.learning_rate:g}), set gradient_clip_val, or look at the loss if it is your own"
            )

    def _is_worth_a_graph(self, batch: Batch, teacher_forcing: float) -> bool:
        """Whether a step is to be compiled: not of a smaller last batch, nor of a rollout that would take minutes."""
        size, horizon, _ = batch.target.shape
        self._compiled_size = self._compiled_size or size
        n_patches = -(-horizon // self.model.config.patch_length)
        return size == self._compiled_size and (teacher_forcing == 1 or n_patches <= MAX_UNROLLED)


def step_errors(model: ForecastTransformer, outputs: torch.Tensor, batch: Batch, memory: Memory) -> torch.Tensor:
    """Error of each target step, (B, H, C): in units of the series' deviation, or a negative log-likelihood."""
    target = batch.target
    output = model.patching.join(outputs, target.shape[2])[:, : target.shape[1]]  # (B, H, C[, K])
    output = output.to(torch.promote_types(output.dtype, torch.float32))  # small errors need the digits
    scaled = memory.scale.normalise(target, batch.target_mask).to(output.dtype)
    if memory.scale.compressed:  # no factor turns these errors into ones of the series
        return model.head.loss(output, scaled, torch.ones_like(scaled))
    unit = torch.where(batch.series_deviation > 0, batch.series_deviation, 1.0).unsqueeze(1)
    weight = (memory.scale.scale / unit).to(output.dtype)  # (B, 1, C)
    return model.head.loss(output, scaled, weight)
