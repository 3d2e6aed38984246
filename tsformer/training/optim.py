"""Optimisers, their parameter groups, and learning-rate schedules."""

from __future__ import annotations

import math

import torch
from torch import nn

from tsformer.config import TrainingConfig

# The linear path starts where it should end: it moves at this share of the learning rate, and is not decayed.
LINEAR_PATH_RATE = 0.1


def build_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """AdamW with weight decay on matrices alone, or the paper's Adam (betas .9 and .98, eps 1e-9).

    Biases, norms, positions and embeddings of the calendar are not decayed.
    """
    tables = {id(p) for module in model.modules() if isinstance(module, nn.Embedding) for p in module.parameters()}
    tables |= {id(p) for name, p in model.named_parameters() if name.endswith("positions.table")}
    path = [p for name, p in model.named_parameters() if name.endswith("linear_path.weight")]
    rest = [p for p in model.parameters() if all(p is not other for other in path)]
    matrices = [p for p in rest if p.ndim > 1 and id(p) not in tables]
    others = [p for p in rest if p.ndim <= 1 or id(p) in tables]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    if path:
        groups.append({"params": path, "weight_decay": 0.0, "lr": LINEAR_PATH_RATE * config.learning_rate})
    fused = "mixed" not in str(config.precision)  # under autocast Lightning clips gradients of plain optimisers only
    if config.optimizer == "adam":
        return torch.optim.Adam(groups, lr=config.learning_rate, betas=(0.9, 0.98), eps=1e-9, fused=fused)
    return torch.optim.AdamW(groups, lr=config.learning_rate, fused=fused)


def schedule_factor(step: int, config: TrainingConfig, total_steps: int, d_model: int) -> float:
    """Return what the learning rate is multiplied by at optimiser step ``step`` (0 is the first).

    ``"cosine"``: linear warm-up, then half a cosine down to 0 at ``total_steps``. ``"noam"``: inverse square
    root, ``d_model^-.5 min(s^-.5, s w^-1.5)`` (Vaswani et al. 2017, equation 3); ``learning_rate`` is its factor.
    ``"constant"``: 1 after the warm-up.
    """
    warmup = config.warmup if isinstance(config.warmup, int) else round(config.warmup * total_steps)
    warmup = max(1, warmup)
    s = step + 1
    if config.schedule == "noam":
        return d_model**-0.5 * min(s**-0.5, s * warmup**-1.5)
    if s <= warmup:
        return s / warmup
    if config.schedule == "constant":
        return 1.0
    progress = min(1.0, (s - warmup) / max(1, total_steps - warmup))
    return 0.5 * (1.0 + math.cos(math.pi * progress))
