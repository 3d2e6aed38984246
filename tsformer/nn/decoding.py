"""The autoregressive loop: teacher-forced, free-running, and cached forecasting."""

from __future__ import annotations

import torch

from tsformer.batch import Batch
from tsformer.nn.attention import KVCache
from tsformer.nn.model import ForecastTransformer, Memory


def rollout(
    model: ForecastTransformer,
    memory: Memory,
    n_patches: int,
    *,
    given: tuple[torch.Tensor, torch.Tensor | None] | None = None,
    keep: torch.Tensor | None = None,
) -> torch.Tensor:
    """Decode patch after patch, each fed with the one before, through a key-value cache.

    Parameters
    ----------
    given
        Patches and missing flags (None: nothing is), each (R, n_patches, W), to feed instead of the model's own ...
    keep
        ... where this is True, bool: (R, n_patches, W) by steps, or (R, n_patches, 1) by whole patches.

    Returns
    -------
    torch.Tensor
        Head outputs, (R, n_patches, W), or (R, n_patches, W, K) of K quantiles or parameters.
    """
    caches = [KVCache(n_patches) for _ in model.decoder.layers]
    patch, window, outputs = memory.start, memory.window, []
    missing: torch.Tensor | None = memory.start_missing
    for i in range(n_patches):
        if i > 0 and model.linear_path is not None and window is not None:
            window = model.linear_path.after(window, patch, missing)  # (R, C, 1, L)
        states = model.decode(patch, missing, memory, first=i, caches=caches)  # (R, 1, D)
        output = model.output(states, memory, window, first=i)  # (R, 1, W[, K])
        outputs.append(output)
        patch, missing = model.head.point(output), None
        if given is not None and keep is not None:
            forced, flags = keep[:, i : i + 1], given[1]
            patch = torch.where(forced, given[0][:, i : i + 1], patch)
            missing = None if flags is None else torch.where(forced, flags[:, i : i + 1], 0.0)
    return torch.cat(outputs, 1)


def forced_patches(
    model: ForecastTransformer, memory: Memory, given: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return given values (B, H, C), target units, as scaled patches, and where they are no NaN; (R, M, W) each."""
    is_given = ~given.isnan()
    fed = model.patching.split(memory.scale.normalise(given, is_given).to(model.dtype))
    return fed, model.patching.split(is_given)


def training_outputs(
    model: ForecastTransformer, batch: Batch, *, teacher_forcing: float, detach: bool
) -> tuple[torch.Tensor, Memory]:
    """Head outputs on a training batch, each patch decoded from the true past or from the model's own.

    Parameters
    ----------
    teacher_forcing
        Probability that a fed patch is the truth: 1 teacher forcing (Williams and Zipser 1989), 0 free
        running, between them scheduled sampling (Bengio et al. 2015) by patches.
    detach
        Stop the gradient at each patch fed back. The patches are then decoded first, without a graph and
        without dropout in the decoder; the states that carry the gradient follow in one parallel pass.

    Returns
    -------
    outputs
        (R, M, W), or (R, M, W, K) of K quantiles or parameters.
    memory
        Of the batch; its scale restores target units.
    """
    n_patches = -(-batch.target.shape[1] // model.config.patch_length)
    memory = model.encode(batch, n_patches)
    truth, truth_missing = model.target_patches(batch, memory.scale)  # (R, M, W)
    rows = truth.shape[0]
    if teacher_forcing < 1:
        keep = torch.rand(rows, n_patches, 1, device=truth.device) < teacher_forcing  # (R, M, 1)
        given = (truth, None if batch.is_target_complete else truth_missing) if teacher_forcing > 0 else None
        if not detach:
            return rollout(model, memory, n_patches, given=given, keep=keep), memory
        own = _rollout_without_graph(model, memory, n_patches - 1, given, keep)  # (R, M - 1, W)
        inputs = torch.where(keep[:, :-1], truth[:, :-1], own)
        flags = torch.where(keep[:, :-1], truth_missing[:, :-1], 0.0)
    else:
        inputs, flags = truth[:, :-1], truth_missing[:, :-1]
    states = model.decode(torch.cat([memory.start, inputs], 1), torch.cat([memory.start_missing, flags], 1), memory)
    gaps = None if teacher_forcing == 0 or batch.is_target_complete else flags
    return model.output(states, memory, model.windows_after(memory.window, inputs, gaps)), memory


@torch.no_grad()
def _rollout_without_graph(
    model: ForecastTransformer,
    memory: Memory,
    n_patches: int,
    given: tuple[torch.Tensor, torch.Tensor | None] | None,
    keep: torch.Tensor,
) -> torch.Tensor:
    """Points that the model feeds itself, (R, n_patches, W)."""
    if n_patches == 0:
        return memory.start[:, :0]
    training = model.training
    model.eval()
    try:
        return model.head.point(rollout(model, memory, n_patches, given=given, keep=keep))
    finally:
        model.train(training)
        if not torch.compiler.is_compiling():
            # Older versions of torch would go on with the weights that autocast has cast here, which have no gradient.
            torch.clear_autocast_cache()


def forecast(model: ForecastTransformer, batch: Batch, horizon: int, given: torch.Tensor | None = None) -> torch.Tensor:
    """Forecast ``horizon`` steps of each window by cached autoregressive decoding.

    Parameters
    ----------
    given
        (B, horizon, C) float64, target units: values to take as they are, NaN where the model decides. The decoder is
        fed with them in place of its own, so that the patches after them follow from them.

    Returns
    -------
    torch.Tensor
        (B, horizon, C), or (B, horizon, C, Q) with a quantile head; target units, float64. Of a distribution the
        means, each fed with the one before; see `nn.sampling` for what they are without that assumption.
    """
    channels = batch.context.shape[2]
    with torch.inference_mode():
        n_patches = -(-horizon // model.config.patch_length)
        memory = model.encode(batch, n_patches)
        if given is None:
            outputs = rollout(model, memory, n_patches)
        else:
            fed, keep = forced_patches(model, memory, given)
            outputs = rollout(model, memory, n_patches, given=(fed, None), keep=keep)
        if model.head.is_distribution:
            outputs = model.head.point(outputs)
        scaled = model.patching.join(outputs, channels)[:, :horizon]  # (B, horizon, C[, Q])
        if scaled.ndim == 4:
            values = memory.scale.restore(scaled.movedim(-1, 0)).movedim(0, -1)
        else:
            values = memory.scale.restore(scaled)
        if given is not None:
            exact = given if scaled.ndim == 3 else given.unsqueeze(-1)
            values = torch.where(exact.isnan(), values, exact)
        return values
