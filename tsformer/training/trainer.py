"""Train a network with Lightning, quietly: the one training path."""

from __future__ import annotations

import logging
import os
import signal
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import lightning as L  # noqa: N812
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping
from lightning.pytorch.loggers import Logger
from torch.utils.data import DataLoader

from tsformer.config import TrainingConfig
from tsformer.nn.model import ForecastTransformer, device_of
from tsformer.training.callbacks import BestWeights, Progress, StopAt, wants_bar
from tsformer.training.compiling import compiler
from tsformer.training.lightning_module import ForecastModule


class Training(NamedTuple):
    """How it went."""

    history: list[dict[str, float]]
    """One row an epoch: ``epoch, step, train_loss, val_loss, learning_rate, seconds``."""
    best_step: int
    """Optimiser steps that led to the weights left; 0: those of the start were the best."""


def train(
    model: ForecastTransformer,
    training: DataLoader[Any],
    validation: DataLoader[Any] | None,
    config: TrainingConfig,
    *,
    verbose: bool | str = "auto",
    callbacks: Sequence[Callback] | None = None,
    logger: Any = None,
    trainer_kwargs: dict[str, Any] | None = None,
) -> Training:
    """Train ``model`` in place and leave it in evaluation mode with its best weights.

    Parameters
    ----------
    training, validation
        Loaders of whole batches; without ``validation`` the last weights stay.
    callbacks, logger, trainer_kwargs
        Given to Lightning as they are; the sequence and the dict are copied.

    Returns
    -------
    Training
    """
    further = _further_arguments(trainer_kwargs)
    extra = [*_listed("trainer_kwargs['callbacks']", further.pop("callbacks", None)), *_listed("callbacks", callbacks)]
    _check_logger(further.get("logger", logger))
    if "precision" in further:  # the optimiser depends on it
        config = replace(config, precision=further.pop("precision"))
    module = ForecastModule(model, config)
    best = BestWeights()
    ours: list[Callback] = [best] if validation is not None else []
    if validation is not None and config.patience is not None:
        # check_on_train_epoch_end=False: after the validation, whose error it looks at.
        ours.append(EarlyStopping("val_loss", patience=config.patience, check_on_train_epoch_end=False, verbose=False))
    if config.max_steps:
        ours.append(StopAt(config.max_steps))
    if wants_bar(verbose):
        ours.append(Progress())
    settings: dict[str, Any] = dict(
        # Lightning's "auto" takes a Mac's MPS, too, which has no float64.
        accelerator=device_of("auto").type if config.accelerator == "auto" else config.accelerator,
        devices=config.devices,
        precision=config.precision,
        max_epochs=-1 if config.max_steps else config.max_epochs,
        max_time=None if config.max_time is None else {"seconds": config.max_time},
        gradient_clip_val=config.gradient_clip_val,
        accumulate_grad_batches=config.accumulate_grad_batches,
        num_sanity_val_steps=-1 if validation is not None else 0,  # the start is a candidate for the best weights
        limit_val_batches=1.0 if validation is not None else 0,
        logger=logger if logger is not None else False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,  # the sampler knows its rank
    )
    with quiet_lightning():
        try:
            trainer = L.Trainer(callbacks=[*ours, *extra], **(settings | further))
        except Exception as error:  # of any kind: what is wrong here is an argument
            raise ValueError(
                f"Lightning's Trainer refuses accelerator={config.accelerator!r}, devices={config.devices!r}, "
                f"precision={config.precision!r}, callbacks or trainer_kwargs: {error}"
            ) from error
        n_cores = os.cpu_count() or 1
        if trainer.strategy.root_device.type == "cpu" and trainer.num_devices > n_cores:
            raise ValueError(
                f"devices={trainer.num_devices} on a CPU are as many processes, and this machine has {n_cores} cores: "
                f"leave devices=1, which uses all of them"
            )
        with _interruptible(), compiler(trainer.strategy.root_device) if config.compile else nullcontext():
            trainer.fit(module, training, validation)
    model.to("cpu")
    model.eval()
    return Training(module.history, trainer.global_step if best.step is None else best.step)


def _further_arguments(trainer_kwargs: Any) -> dict[str, Any]:
    """Return a copy of ``trainer_kwargs``."""
    if trainer_kwargs is not None and not isinstance(trainer_kwargs, Mapping):
        raise TypeError(f"trainer_kwargs must be a dict of arguments of Lightning's Trainer, got {trainer_kwargs!r}")
    return dict(trainer_kwargs or {})


def _listed(name: str, callbacks: Any) -> list[Callback]:
    """Return callbacks as a list of its own, or say what is none; one alone need not be in a list."""
    several = [callbacks] if isinstance(callbacks, Callback) else callbacks if callbacks is not None else []
    if not isinstance(several, Iterable):
        raise TypeError(f"{name} must be a list of Lightning's callbacks, got {several!r}")
    several = list(several)
    for callback in several:
        if not isinstance(callback, Callback):
            hint = ": call the class, to give an instance" if isinstance(callback, type) else ""
            raise TypeError(f"{name} are those of Lightning, got {callback!r} of type {type(callback).__name__}{hint}")
    return several


def _check_logger(logger: Any) -> None:
    """Refuse what is no logger, which Lightning would find out in the middle of its work."""
    several = logger if isinstance(logger, (list, tuple)) else [logger]
    for one in several:
        if not (one is None or isinstance(one, (bool, Logger))):
            raise TypeError(f"logger must be one of Lightning, or a list of them, got {one!r}")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C through: Lightning ends the process instead, and leaves it deaf to the next one."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as stop:
        if isinstance(stop.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Silence what Lightning says about machines, loaders and tips; errors still come through."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric", "lightning")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            # Known chatter only: what torch or a user's callback warns of stays visible.
            for text in (
                ".*does not have many workers.*",
                ".*number of training batches.*",
                ".*no `val_dataloader`.*",
                ".*GPU available but not used.*",
                ".*MPS available but not used.*",
                ".*lr_scheduler.step.*",
                ".*`isinstance\\(treespec, LeafSpec\\)` is deprecated.*",
            ):
                warnings.filterwarnings("ignore", message=text)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch inside, and hand the global random state back unchanged."""
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield
