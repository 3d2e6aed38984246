"""Sample paths: drawn patch by patch through the cache, each drawn patch fed back; and what follows from them.

Letters: B windows, R rows (windows x independent channels), S paths, M patches of W values, H steps, C channels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch

from tsformer.batch import Batch
from tsformer.nn.attention import KVCache
from tsformer.nn.decoding import forced_patches, training_outputs
from tsformer.nn.distributions import DistributionHead
from tsformer.nn.heads import PointHead, QuantileHead
from tsformer.nn.model import ForecastTransformer, Memory

# Paths that share a stream of random numbers, and those that are decoded together.
BLOCK, TOGETHER = 50, 200
# Paths behind the means and quantiles of a distribution: a quantile of 10 % is then one of 10 % +- 2.
SUMMARY_PATHS = 200
# Normal scores of a truth that the head had ruled out.
LARGEST_SCORE = 4.0


def sample(
    model: ForecastTransformer,
    batch: Batch,
    horizon: int,
    n_paths: int,
    seeds: np.ndarray,
    given: torch.Tensor | None = None,
    *,
    temperature: float = 1.0,
    top_p: float = 1.0,
) -> torch.Tensor:
    """Draw joint sample paths of each window by cached autoregressive decoding.

    Parameters
    ----------
    batch
        B windows.
    horizon, n_paths
        H steps of S paths.
    seeds
        (B, ...) whole numbers from 0 on. All random numbers of a window come from its own: its paths are the same in
        any batch, the first of them the same whatever ``n_paths``, and their beginning the same whatever ``horizon``.
    given
        (B, H, C) float64, target units: values that every path goes on from, NaN where it is drawn.
    temperature
        Factor of the normal scores: 0 gives the path of medians.
    top_p
        Share of the probability to draw from, the middle of each distribution.

    Returns
    -------
    torch.Tensor
        (B, S, H, C) float64, target units; whole numbers where the head counts.
    """
    head, channels = _sampling_head(model), batch.context.shape[2]
    with torch.inference_mode():
        n_patches = -(-horizon // model.config.patch_length)
        memory = model.encode(batch, n_patches)
        first, caches = _first(model, memory, n_patches)
        forced = None if given is None else forced_patches(model, memory, given)
        paths = torch.empty(len(batch.context), n_paths, horizon, channels, dtype=torch.float64, device=first.device)
        for begin in range(0, n_paths, TOGETHER):
            size = min(TOGETHER, n_paths - begin)
            scores = _scores(seeds, begin, size, memory, head.copula, temperature, top_p)
            patches = _draw(model, memory, first, caches, scores, n_patches, size, forced)  # (R, M, W, S)
            scaled = model.patching.join(patches, channels)[:, :horizon]  # (B, H, C, S)
            values = memory.scale.restore(scaled.movedim(-1, 0)).movedim(0, 1)  # (B, S, H, C)
            paths[:, begin : begin + size] = values.round() if head.counts else values
        return paths


def summarise(
    model: ForecastTransformer,
    batch: Batch,
    horizon: int,
    levels: tuple[float, ...],
    seeds: np.ndarray,
    given: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return mean and quantiles of a distribution at each step.

    Those of the first patch are the head's own, exact; later ones are those of ``SUMMARY_PATHS`` sample paths, so that
    what happens before is not taken for known. Neither depends on how far the horizon reaches.

    Parameters
    ----------
    levels
        Q quantile levels in (0, 1).
    seeds, given
        As in `sample`.

    Returns
    -------
    torch.Tensor
        (B, H, C, 1 + Q) float64, target units: mean, quantiles.
    """
    head, channels = _sampling_head(model), batch.context.shape[2]
    with torch.inference_mode():
        n_patches = -(-horizon // model.config.patch_length)
        memory = model.encode(batch, n_patches)
        first, caches = _first(model, memory, n_patches)
        at = torch.special.ndtri(torch.tensor(levels, dtype=torch.float64)).to(first)
        exact = [head.point(first), *(head.sample(first, z.expand(first.shape[:-1])) for z in at)]
        columns = torch.stack(exact, -1)  # (R, 1, W, 1 + Q)
        if n_patches > 1:
            forced = None if given is None else forced_patches(model, memory, given)
            scores = _scores(seeds, 0, SUMMARY_PATHS, memory, head.copula)
            drawn = _draw(model, memory, first, caches, scores, n_patches, SUMMARY_PATHS, forced)[:, 1:]
            paths = drawn.sort(-1).values  # (R, M - 1, W, S)
            later = [paths.mean(-1), *(_quantile(paths, level, counts=head.counts) for level in levels)]
            columns = torch.cat([columns, torch.stack(later, -1)], 1)  # (R, M, W, 1 + Q)
        scaled = model.patching.join(columns, channels)[:, :horizon]  # (B, H, C, 1 + Q)
        values = memory.scale.restore(scaled.movedim(-1, 0)).movedim(0, -1)
        if head.counts:
            values[..., 1:] = values[..., 1:].round()
        return values


def fit_copula(model: ForecastTransformer, batches: Iterable[Batch]) -> None:
    """Learn how the values of one patch hang together, which the head forecasts one by one: a Gaussian copula.

    The normal scores of the truth, given the true past, are correlated; the Cholesky factor of their correlation turns
    independent scores into those of a patch. Pairs are taken where both values were observed. Scores have the mean 0
    that they have under the head, so that an error shared by the patch counts as dependence. The correlation is
    shrunk towards independence by W / (W + n), n the number of patches.

    Parameters
    ----------
    model
        In evaluation mode, with a head that samples; ``head.copula`` is written.
    batches
        Windows with their targets.
    """
    head = _sampling_head(model)
    width = len(head.copula)
    if width == 1:
        return
    generator = np.random.default_rng(0)
    products = torch.zeros(width, width, dtype=torch.float64)
    squares, n_patches = products.clone(), 0
    with torch.inference_mode():
        for batch in batches:
            outputs, memory = training_outputs(model, batch, teacher_forcing=1.0, detach=True)
            truth, missing = model.target_patches(batch, memory.scale)  # (R, M, W)
            is_known = (missing == 0) & (memory.unit > 0)
            scores = head.scores(outputs, truth, generator).nan_to_num().clamp(-LARGEST_SCORE, LARGEST_SCORE)
            scores = torch.where(is_known, scores, 0.0).flatten(0, 1).double()  # (R M, W)
            known = is_known.flatten(0, 1).double()
            products += scores.T @ scores
            squares += scores.square().T @ known  # of the first of each pair, where the second is known too
            n_patches += int(known.any(1).sum())
    size = (squares * squares.T).sqrt()
    correlation = torch.where(size > 0, products / size, 0.0)
    correlation *= n_patches / (width + n_patches)
    # Pairs that were observed in different patches need not fit together.
    values, vectors = torch.linalg.eigh(correlation.fill_diagonal_(1.0))
    correlation = vectors @ torch.diag(values.clamp(min=1e-4)) @ vectors.T
    deviation = correlation.diagonal().sqrt()
    head.copula.copy_(torch.linalg.cholesky(correlation / deviation / deviation[:, None]))


def _sampling_head(model: ForecastTransformer) -> QuantileHead | DistributionHead:
    """Return the head of a model that can sample."""
    if isinstance(model.head, PointHead):
        raise TypeError("a point head has no distribution to sample from")
    return model.head


def _first(model: ForecastTransformer, memory: Memory, n_patches: int) -> tuple[torch.Tensor, list[KVCache]]:
    """Decode the token that all paths have in common, once: output (R, 1, W, K) and caches."""
    caches = [KVCache(n_patches) for _ in model.decoder.layers]
    states = model.decode(memory.start, memory.start_missing, memory, caches=caches)
    return model.output(states, memory, memory.window), caches


def _draw(
    model: ForecastTransformer,
    memory: Memory,
    output: torch.Tensor,
    caches: list[KVCache],
    scores: Iterator[torch.Tensor],
    n_patches: int,
    n_paths: int,
    forced: tuple[torch.Tensor, torch.Tensor] | None,
) -> torch.Tensor:
    """Draw paths (R, M, W, S), scaled, from the first output and its caches, which stay as they are."""
    head = _sampling_head(model)
    if n_patches > 1:
        caches = [cache.fork(n_paths) for cache in caches]
    patches: list[torch.Tensor] = []
    start = window = None if memory.window is None else memory.window.repeat_interleave(n_paths, 0)  # (R S, C, 1, L)
    for i in range(n_patches):
        if i > 0:
            last = patches[-1].flatten(0, 1).unsqueeze(1)  # (R S, 1, W)
            states, base = model.decode(last, None, memory, first=i, caches=caches), None
            if model.linear_path is not None and window is not None:
                window = model.linear_path.after(window, last, None)
                base = model.linear_path(window, start, i).view(-1, n_paths, last.shape[2])
            output = head(states.view(-1, n_paths, states.shape[-1]), memory.unit, base)  # (R, S, W, K)
        patch = head.sample(output, next(scores))  # (R, S, W)
        if forced is not None:
            patch = torch.where(forced[1][:, i : i + 1], forced[0][:, i : i + 1], patch)
        patches.append(patch)
    return torch.stack(patches, 1).movedim(2, -1)


def _scores(
    seeds: np.ndarray,
    begin: int,
    size: int,
    memory: Memory,
    copula: torch.Tensor,
    temperature: float = 1.0,
    top_p: float = 1.0,
) -> Iterator[torch.Tensor]:
    """Return normal scores of ``size`` paths from ``begin`` on, (R, S, W) for one patch after another."""
    rows, _, width = memory.start.shape
    shape = rows // len(seeds), BLOCK, width
    blocks = range(begin // BLOCK, -(-(begin + size) // BLOCK))
    generators = [[np.random.default_rng([*map(int, seed), block]) for seed in seeds] for block in blocks]
    while True:
        drawn = np.concatenate(
            [np.stack([g.standard_normal(shape, dtype=np.float32) for g in of_block]) for of_block in generators], 2
        )  # (B, rows of a window, S, W)
        z = torch.from_numpy(drawn).flatten(0, 1)[:, :size].to(memory.start, non_blocking=True)  # (R, S, W)
        z = temperature * (z @ copula.T.to(z))
        yield torch.special.ndtri(0.5 + top_p * (torch.special.ndtr(z) - 0.5)) if top_p < 1 else z


def _quantile(ordered: torch.Tensor, level: float, *, counts: bool) -> torch.Tensor:
    """Quantile of ordered draws (..., S), of rank level (S + 1), which a new draw stays below with that probability."""
    n = ordered.shape[-1]
    if counts:  # one of the values: the smallest that so many draws do not exceed
        return ordered[..., min(max(int(np.ceil(level * n)) - 1, 0), n - 1)]
    place = min(max(level * (n + 1) - 1, 0.0), n - 1.0)
    low = min(int(place), n - 2)
    return ordered[..., low].lerp(ordered[..., low + 1], place - low)
