"""Quantiles and intervals that a user asks for: their columns, and their values between the trained levels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tsformer.config import check_number, check_quantiles


def interval_columns(quantiles: Sequence[float] | None, level: Sequence[float] | float | None) -> dict[str, float]:
    """Return column suffixes and their quantile levels, in the names that utilsforecast reads."""
    columns: dict[str, float] = {}
    for q in check_quantiles("quantiles", quantiles) if quantiles is not None else ():
        width = round(abs(200 * q - 100), 6)
        columns["-median" if q == 0.5 else f"-{'lo' if q < 0.5 else 'hi'}-{width:g}"] = q
    if level is not None:
        coverages: list[Any] = [level] if np.ndim(level) == 0 else list(level)  # type: ignore[arg-type]
        for given in coverages:
            coverage = check_number("level", given)
            if not 1 <= coverage < 100:
                raise ValueError(f"level is a coverage in percent, such as 80 or 95, got {given!r}")
            columns[f"-lo-{coverage:g}"] = round(0.5 - coverage / 200, 10)
            columns[f"-hi-{coverage:g}"] = round(0.5 + coverage / 200, 10)
    return columns


def check_names(wanted: Iterable[str], targets: Sequence[Any]) -> None:
    """Refuse suffixes that make a column of one target look like another target."""
    for target in targets:
        for suffix in wanted:
            if f"{target}{suffix}" in targets:
                raise ValueError(
                    f"the target {target}{suffix} has the name that the forecast of {target!r} gives to a column: "
                    f"rename that target"
                )


def check_levels(wanted: dict[str, float], levels: tuple[float, ...], *, is_calibrated: bool = False) -> None:
    """Refuse quantiles that a head has not learned and calibration does not give.

    Parameters
    ----------
    wanted
        Suffixes and levels, of `interval_columns`.
    levels
        Those that were trained, in increasing order; empty for a point head.
    is_calibrated
        Whether the errors of a point head are known.

    Raises
    ------
    ValueError
        When there are none, or one wanted lies outside them.
    """
    if not levels and is_calibrated:
        return
    if wanted and not levels:
        raise ValueError(
            "quantiles and intervals need a model fitted with calibrate=True, loss='quantile' or a distribution; "
            "this one is not"
        )
    outside = [q for q in wanted.values() if not levels[0] <= q <= levels[-1]]
    if outside:
        raise ValueError(
            f"quantile {outside[0]:g} lies outside the trained ones, {levels[0]:g} to {levels[-1]:g}: "
            f"fit with quantiles that reach it"
        )


def interpolate(values: np.ndarray, levels: tuple[float, ...], q: float) -> np.ndarray:
    """Return quantile q between the nearest trained levels, (..., Q) to (...)."""
    above = int(np.searchsorted(levels, q))
    if levels[above] == q:
        return values[..., above]
    share = (q - levels[above - 1]) / (levels[above] - levels[above - 1])
    return values[..., above - 1] * (1 - share) + values[..., above] * share
