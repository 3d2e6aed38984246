"""Transforms of the targets, logarithms and powers: fitted on training rows, applied to panels, and back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tsformer.data.panel import Panel

# Powers lie between the logarithm and the square. Beyond, a transform has an end that forecasts run into, and numbers
# overflow.
LOWEST, HIGHEST = 0.0, 2.0
# Values that a power is fitted to, evenly spaced: more do not change it.
MAX_VALUES = 100_000
# What every value must be above.
LOWER_BOUND = {"log1p": -1.0, "box_cox": 0.0}
# Forecasts are kept from overflowing.
LARGEST = 1e300


@dataclass(frozen=True)
class TargetTransform:
    """A monotone map of target units to those that the network works in.

    - ``"log1p"``: log(1 + x),
    - ``"box_cox"``: (x^p - 1) / p, log(x) where p is 0 (Box and Cox 1964),
    - ``"yeo_johnson"``: Box-Cox of 1 + x with power p for x >= 0, of 1 - x with power 2 - p, mirrored, below (Yeo and
      Johnson 2000),
    - None: the values as they are.

    Parameters
    ----------
    name
        Which.
    powers
        (C,) the p of each channel; empty where there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from tsformer.data.panel import to_panel
    >>> transform = TargetTransform("log1p")
    >>> transform.apply(to_panel(np.array([0.0, 1.0]))).values.ravel().round(3).tolist()
    [0.0, 0.693]
    >>> transform.inverse(np.log([[[1.0], [2.0]]])).ravel().round(3).tolist()
    [0.0, 1.0]
    """

    name: str | None = None
    powers: np.ndarray = field(default_factory=lambda: np.empty(0))

    @classmethod
    def fit(cls, name: str | None, panel: Panel, end: np.ndarray, mean: np.ndarray) -> TargetTransform:
        """Return the transform of that name, its powers by maximum likelihood from the training rows of all series.

        Box-Cox sees each series divided by its mean, so that different levels do not pass for skewness: the power of
        a series does not depend on its unit. Yeo-Johnson sees the values as they are.

        Parameters
        ----------
        name
            Which.
        panel
            N series of C channels.
        end
            (N,) training rows of each series.
        mean
            (N, C) mean of them.

        Raises
        ------
        ValueError
            For a value that the transform has no image of.
        """
        transform = cls(name)
        transform.check(panel)
        if name in (None, "log1p"):
            return transform
        series = np.repeat(np.arange(panel.n_series), panel.lengths)
        is_training = np.arange(len(series)) - panel.indptr[series] < end[series]
        if panel.weight is not None:
            is_training &= panel.weight > 0
        unit = mean[series] if name == "box_cox" else np.ones_like(panel.values)
        with np.errstate(invalid="ignore"):  # the mean of a series without training values may be anything
            values = panel.values / unit
        values[~is_training] = np.nan
        return cls(name, np.array([_power_of(name, column[~np.isnan(column)]) for column in values.T]))

    def check(self, panel: Panel) -> None:
        """Raise a ValueError that names the first value of a panel that has no image, if there is one."""
        bound = LOWER_BOUND.get(self.name or "", -np.inf)
        wrong = panel.values <= bound
        if wrong.any():
            row, channel = (int(i) for i in np.argwhere(wrong)[0])
            raise ValueError(
                f"target_transform={self.name!r} needs values above {bound:g}, and {np.count_nonzero(wrong)} are not, "
                f"the first {panel.values[row, channel]:g}: {panel.describe(row, panel.schema.targets[channel])}. "
                f"Set target_transform='yeo_johnson', which takes any number, or correct the values"
            )

    def apply(self, panel: Panel) -> Panel:
        """Return a panel with its values transformed; itself when there is nothing to do.

        Raises
        ------
        ValueError
            For a value that the transform has no image of.
        """
        if self.name is None:
            return panel
        self.check(panel)
        return replace(panel, values=self.forward(panel.values))

    def forward(self, values: np.ndarray) -> np.ndarray:
        """Return values (..., C) in target units in those of the network; NaN stays NaN.

        Raises
        ------
        ValueError
            For a value that the transform has no image of.
        """
        if self.name is None:
            return values
        wrong = values <= LOWER_BOUND.get(self.name, -np.inf)
        if wrong.any():
            bound, first = LOWER_BOUND[self.name], values[wrong][0]
            raise ValueError(f"target_transform={self.name!r} needs values above {bound:g}, got {first:g}")
        out = np.empty_like(values)
        for channel in range(values.shape[-1]):
            x = values[..., channel]
            if self.name == "log1p":
                out[..., channel] = np.log1p(x)
            elif self.name == "box_cox":
                out[..., channel] = _power(np.log(x), self.powers[channel])
            else:
                logs, power = np.log1p(np.abs(x)), self.powers[channel]
                out[..., channel] = np.where(x >= 0, _power(logs, power), -_power(logs, 2 - power))
        return out

    def clip(self, values: np.ndarray) -> np.ndarray:
        """Return values in target units, those below what has an image raised to it."""
        return np.maximum(values, LOWER_BOUND.get(self.name or "", -np.inf))

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """Return values (B, H, C) or (B, H, C, Q) in target units.

        The map is monotone, so quantiles stay quantiles and medians medians; means do not stay means. A forecast
        beyond the image of the transform becomes the end of its range.
        """
        if self.name is None:
            return values
        out = np.empty_like(values)
        for channel in range(values.shape[2]):
            y = values[:, :, channel]
            with np.errstate(over="ignore", divide="ignore"):
                if self.name == "log1p":
                    out[:, :, channel] = np.expm1(y)
                elif self.name == "box_cox":
                    out[:, :, channel] = np.exp(_log_of(y, self.powers[channel]))
                else:
                    size, power = np.abs(y), self.powers[channel]
                    logs = np.where(y >= 0, _log_of(size, power), _log_of(size, 2 - power))
                    out[:, :, channel] = np.sign(y) * np.expm1(logs)
        return np.clip(out, -LARGEST, LARGEST)


def _power_of(name: str, values: np.ndarray) -> float:
    """Return the most likely power of values, within bounds; 1, a mere shift, of a constant."""
    from sklearn.preprocessing import PowerTransformer

    values = values[:: -(-len(values) // MAX_VALUES) or 1]
    if not len(values) or np.ptp(values) == 0:
        return 1.0
    fitted = PowerTransformer(name.replace("_", "-"), standardize=False).fit(values[:, None])
    return float(np.clip(fitted.lambdas_[0], LOWEST, HIGHEST))


def _power(logs: np.ndarray, power: float) -> np.ndarray:
    """Return (x^p - 1) / p of the logarithms of x."""
    return logs if power == 0 else np.expm1(power * logs) / power


def _log_of(y: np.ndarray, power: float) -> np.ndarray:
    """Return the logarithms of x from y = (x^p - 1) / p; of y below its range that of 0."""
    return y if power == 0 else np.log1p(np.maximum(power * y, -1.0)) / power
