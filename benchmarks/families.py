"""Eight families of generated series, to see the defaults at work on data that nothing was tuned for.

Formula, seed, frequency and horizons are fixed here, before any model is run on them. Letters: t step (0, 1, ...), e
standard normal noise; every other symbol is drawn once for each series, unless it has an index t.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

TURN = 2 * np.pi


@dataclass(frozen=True)
class Family:
    """Series of one kind.

    Parameters
    ----------
    generate
        ``generate(rng, n_steps)``: one series, (T,).
    seed
        Series i is drawn from ``default_rng([seed, i])``.
    n_series, n_steps
        N and T.
    freq
        Of the time axis; an integer: steps without a calendar.
    horizons
        To forecast, steps.
    """

    generate: Callable[[np.random.Generator, int], np.ndarray]
    seed: int
    n_series: int
    n_steps: int
    freq: str | int
    horizons: tuple[int, int]

    def frame(self) -> pd.DataFrame:
        """Return the series as a long frame, ``unique_id, ds, y``: the same at every call."""
        ds: np.ndarray | pd.DatetimeIndex = np.arange(self.n_steps)
        if isinstance(self.freq, str):
            ds = pd.date_range("2020-01-01", periods=self.n_steps, freq=self.freq)
        values = [self.generate(np.random.default_rng([self.seed, i]), self.n_steps) for i in range(self.n_series)]
        parts = [pd.DataFrame({"unique_id": f"s{i:02d}", "ds": ds, "y": y}) for i, y in enumerate(values)]
        return pd.concat(parts, ignore_index=True)


def two_seasons(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return ``100 + a(t) day(t) + b(t) week(t) + 2 e``.

    ``day`` is a sum of two harmonics of period 24 and ``week`` of period 168; the amplitudes ``a(t)`` and ``b(t)``
    swing between a half and one and a half of 20 and 10, over 500 to 1,000 steps.
    """
    t = np.arange(n)

    def amplitude(mean: float) -> np.ndarray:
        return mean * (1 + 0.5 * np.sin(TURN * (t / rng.uniform(500, 1000) + rng.uniform())))

    def season(period: int) -> np.ndarray:
        first, second = (np.sin(TURN * (k * t / period + rng.uniform())) for k in (1, 2))
        return first + rng.uniform(0.2, 0.6) * second

    return 100 + amplitude(20) * season(24) + amplitude(10) * season(168) + 2 * rng.normal(size=n)


def broken_trend(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return a trend that breaks with probability 1/150 a step, each time to a slope of ``.2 e``, plus AR(1) noise.

    The noise is ``u(t) = .6 u(t - 1) + e``.
    """
    breaks = rng.random(n) < 1 / 150
    breaks[0] = True
    slopes = 0.2 * rng.normal(size=n)
    slope = slopes[np.maximum.accumulate(np.where(breaks, np.arange(n), 0))]
    return 50 + np.cumsum(slope) + _autoregression(rng.normal(size=n), 0.6)


def walk(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return a random walk with drift: ``y(t) = y(t - 1) + s (d + e)``, d of -.1 to .1, s of .5 to 2."""
    return 100 + rng.uniform(0.5, 2) * np.cumsum(rng.uniform(-0.1, 0.1) + rng.normal(size=n))


def counts(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return counts, mostly 0: with probability ``p(weekday)`` one and a Poisson number of mean m of 1 to 5 more.

    ``p`` is r (of .2 to .5) times a pattern of the week between .5 and 1.5.
    """
    probability = rng.uniform(0.2, 0.5) * rng.uniform(0.5, 1.5, 7)[np.arange(n) % 7]
    size = 1 + rng.poisson(rng.uniform(1, 5), n)
    return np.where(rng.random(n) < probability, size, 0).astype(float)


def heteroscedastic(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return ``30 + 10 sin(day) + (.5 + 4 (1 + sin(day + shift)) / 2) e``: noise with a season of its own, 24 steps."""
    day = TURN * (np.arange(n) / 24 + rng.uniform())
    deviation = 0.5 + 4 * (1 + np.sin(day + TURN * rng.uniform())) / 2
    return 30 + 10 * np.sin(day) + deviation * rng.normal(size=n)


def chaos(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return the logistic map ``x(t) = r x(t - 1) (1 - x(t - 1))``, r of 3.7 to 3.95, seen with noise of ``.02 e``."""
    r, x = rng.uniform(3.7, 3.95), rng.uniform(0.2, 0.8)
    values = np.empty(n)
    for t in range(-100, n):  # the first 100 steps are forgotten
        x = r * x * (1 - x)
        values[max(t, 0)] = x
    return values + 0.02 * rng.normal(size=n)


def level_steps(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return a level that jumps by ``10 e`` with p = 1/100 a step, plus a pattern of the week (deviation 5), plus e."""
    jumps = 10 * rng.normal(size=n) * (rng.random(n) < 1 / 100)
    week = 5 * rng.normal(size=7)
    return 100 + np.cumsum(jumps) + week[np.arange(n) % 7] + rng.normal(size=n)


def gaps(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return a day of three harmonics plus AR(1) noise, ``u(t) = .5 u(t - 1) + e``; each value missing with p = .2."""
    t = np.arange(n)
    day = sum(8 / k * np.sin(TURN * (k * t / 24 + rng.uniform())) for k in (1, 2, 3))
    values = 50 + day + _autoregression(rng.normal(size=n), 0.5)
    return np.where(rng.random(n) < 0.2, np.nan, values)


def _autoregression(noise: np.ndarray, coefficient: float) -> np.ndarray:
    """Return ``u(t) = coefficient u(t - 1) + noise(t)``."""
    values = noise.copy()
    for t in range(1, len(values)):
        values[t] += coefficient * values[t - 1]
    return values


FAMILIES = {
    "two_seasons": Family(two_seasons, seed=101, n_series=12, n_steps=2000, freq="h", horizons=(24, 96)),
    "broken_trend": Family(broken_trend, seed=102, n_series=16, n_steps=1200, freq="D", horizons=(7, 28)),
    "walk": Family(walk, seed=103, n_series=20, n_steps=1000, freq="D", horizons=(7, 28)),
    "counts": Family(counts, seed=104, n_series=20, n_steps=1000, freq="D", horizons=(7, 28)),
    "heteroscedastic": Family(heteroscedastic, seed=105, n_series=12, n_steps=1680, freq="h", horizons=(24, 96)),
    "chaos": Family(chaos, seed=106, n_series=8, n_steps=2000, freq=1, horizons=(4, 16)),
    "level_steps": Family(level_steps, seed=107, n_series=16, n_steps=1400, freq="D", horizons=(7, 28)),
    "gaps": Family(gaps, seed=108, n_series=12, n_steps=1680, freq="h", horizons=(24, 96)),
}
