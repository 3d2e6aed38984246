"""What a forecast has to beat: seasonal naive, repeat-last and ridge, with the estimator's methods.

Missing values are carried forward inside a window's own look-back, never across it.
Letters: B windows, N series, L look-back steps, H horizon steps, C channels.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from tsformer.config import check_integer
from tsformer.data.frames import Restore, as_it_is, to_pandas
from tsformer.data.frequency import season_length
from tsformer.data.panel import Panel, check_trainable, to_frame, to_panel
from tsformer.data.windows import series_statistics
from tsformer.evaluation.arrays import forward_fill, in_chunks, rows_at
from tsformer.evaluation.linear import fit_windows
from tsformer.evaluation.scoring import scaled_mae
from tsformer.ridge import PENALTIES, RidgeFit

# Steps that the naive forecasts look back for an observed value.
MIN_LOOK_BACK = 336


class Baseline(BaseEstimator):
    """Frame in, frame out; the subclass says how far it looks back and forecasts arrays."""

    prediction_length: int
    freq: str | int | None
    id_col: str
    time_col: str
    target_cols: Any
    _restore: Restore  # how a forecast without a history goes out

    def fit(self, X: Any, y: object = None) -> Self:
        """Learn from the training rows.

        Parameters
        ----------
        X
            A long or wide frame, a Series or an array, as `TransformerForecaster` takes.
        y
            Ignored.

        Returns
        -------
        self
        """
        check_integer("prediction_length", self.prediction_length, minimum=1)
        X, restore = to_pandas(X)
        self.fit_panel(self.read_panel(X))
        self._restore = restore
        return self

    def read_panel(self, X: Any) -> Panel:
        """Return data as ``fit`` reads them, by the parameters."""
        return to_panel(X, freq=self.freq, id_col=self.id_col, time_col=self.time_col, target_cols=self.target_cols)

    def fit_panel(self, panel: Panel) -> Self:
        """Learn from the training rows, given as a panel."""
        check_trainable(panel)
        self.schema_ = panel.schema
        self._restore = as_it_is  # ``fit`` knows what frame the data were
        mean, self.deviation_ = series_statistics(panel)
        self.empty_ = mean.mean(axis=0)  # (C,) forecast where the whole look-back is missing
        self._learn(panel)
        self.tail_ = panel.tail(self.look_back_)
        return self

    def predict(self, X: Any = None, horizon: int | None = None) -> Any:
        """Forecast the steps after the last row.

        Parameters
        ----------
        X
            The history to forecast from; None: the training rows.
        horizon
            Steps; None: ``prediction_length``.

        Returns
        -------
        DataFrame or Series
            In the layout and of the library of ``X``, in target units, in a column named after the class (or targets).
        """
        check_is_fitted(self, "tail_")
        horizon = check_integer("horizon", self.prediction_length if horizon is None else horizon, minimum=1)
        X, restore = (None, self._restore) if X is None else to_pandas(X)
        panel = self.tail_ if X is None else to_panel(X, schema=self.schema_)
        values = self.forecast_windows(panel, np.arange(panel.n_series), panel.lengths, horizon)
        return restore(to_frame(panel, {"": values}, name=type(self).__name__))

    def score(self, X: Any, y: object = None) -> float:
        """Return minus the mean scaled MAE on the rows after training.

        Parameters
        ----------
        X
            What came next, from one step after the last training row; longer than ``prediction_length`` is
            forecast window by window, the history growing with it.
        y
            Ignored.

        Raises
        ------
        ValueError
            When ``X`` does not start where the training rows end.
        """
        check_is_fitted(self, "tail_")
        panel = to_panel(X, schema=self.schema_)
        return -scaled_mae(self.forecast_windows, self.tail_, panel, self.deviation_, self.prediction_length)

    def forecast_windows(self, panel: Panel, series: np.ndarray, cutoffs: np.ndarray, horizon: int) -> np.ndarray:
        """Forecast windows of a panel from the rows before their cut-offs.

        Parameters
        ----------
        panel
            The data.
        series, cutoffs
            (B,) number of the series, and of its first row to forecast.
        horizon
            H.

        Returns
        -------
        np.ndarray
            (B, H, C) float64, target units.
        """
        forecast = np.empty((len(series), horizon, panel.n_channels))
        for chunk in in_chunks(len(series), (self.look_back_ + horizon) * panel.n_channels):
            context = rows_at(panel, series[chunk], cutoffs[chunk] - self.look_back_, self.look_back_)
            forecast[chunk] = self._forecast(forward_fill(context, self.empty_), horizon)
        return forecast

    @abstractmethod
    def _learn(self, panel: Panel) -> None:
        """Set ``look_back_``, the steps that forecasts look back, and whatever else is learned."""

    @abstractmethod
    def _forecast(self, context: np.ndarray, horizon: int) -> np.ndarray:
        """Forecast (B, H, C) from contexts (B, L, C) without missing values."""


class RepeatLast(Baseline):
    """The last observed value, repeated.

    Parameters
    ----------
    prediction_length
        Steps to forecast.
    freq, id_col, time_col, target_cols
        How to read frames, as in `TransformerForecaster`.

    Examples
    --------
    >>> import numpy as np
    >>> RepeatLast(prediction_length=2).fit(np.array([1.0, 2.0, 5.0])).predict().iloc[:, 0].tolist()
    [5.0, 5.0]
    """

    prefix_consistent = True  # a shorter forecast is the beginning of a longer one

    def __init__(
        self,
        prediction_length: int,
        *,
        freq: str | int | None = None,
        id_col: str = "unique_id",
        time_col: str = "ds",
        target_cols: Any = None,
    ) -> None:
        self.prediction_length = prediction_length
        self.freq = freq
        self.id_col = id_col
        self.time_col = time_col
        self.target_cols = target_cols

    def _learn(self, panel: Panel) -> None:
        self.look_back_ = MIN_LOOK_BACK

    def _forecast(self, context: np.ndarray, horizon: int) -> np.ndarray:
        return np.repeat(context[:, -1:], horizon, axis=1)


class SeasonalNaive(Baseline):
    """The last season, repeated.

    Parameters
    ----------
    prediction_length
        Steps to forecast.
    season_length
        Steps of a season; None: the usual one of the frequency (24 for hours, 7 for days, 12 for months ...).
    freq, id_col, time_col, target_cols
        How to read frames, as in `TransformerForecaster`.

    Attributes
    ----------
    season_length_
        The season in use, steps.

    Examples
    --------
    >>> import numpy as np
    >>> naive = SeasonalNaive(prediction_length=3, season_length=2).fit(np.array([0.0, 1.0, 2.0]))
    >>> naive.predict().iloc[:, 0].tolist()
    [1.0, 2.0, 1.0]
    """

    prefix_consistent = True

    def __init__(
        self,
        prediction_length: int,
        *,
        season_length: int | None = None,
        freq: str | int | None = None,
        id_col: str = "unique_id",
        time_col: str = "ds",
        target_cols: Any = None,
    ) -> None:
        self.prediction_length = prediction_length
        self.season_length = season_length
        self.freq = freq
        self.id_col = id_col
        self.time_col = time_col
        self.target_cols = target_cols

    def _learn(self, panel: Panel) -> None:
        given = self.season_length
        usual = season_length(panel.schema.freq)
        self.season_length_ = usual if given is None else check_integer("season_length", given, minimum=1)
        self.look_back_ = max(MIN_LOOK_BACK, self.season_length_)

    def _forecast(self, context: np.ndarray, horizon: int) -> np.ndarray:
        season = self.season_length_
        return context[:, context.shape[1] - season + np.arange(horizon) % season]


class RidgeForecaster(Baseline):
    """Ridge regression from look-back to horizon, one weight matrix for all series and channels.

    Windows are centred on their last value; the penalty is chosen by squared error on the last part of the rows;
    weights come from the rows before it. Each horizon asked for has its own fit.

    Parameters
    ----------
    prediction_length
        Steps to forecast.
    context_length
        Steps looked back, at most the longest series.
    validation_size
        Last part of the training rows that chooses the penalty, as a share or a number of steps; 0: no choice.
    penalties
        Candidates for lambda on the scale of X'X/n.
    freq, id_col, time_col, target_cols
        How to read frames, as in `TransformerForecaster`.

    Attributes
    ----------
    fits_
        Weights (L, H) and penalty of each horizon asked for so far.
    """

    prefix_consistent = False

    def __init__(
        self,
        prediction_length: int,
        *,
        context_length: int = 336,
        validation_size: float | int = 0.1,
        penalties: tuple[float, ...] = PENALTIES,
        freq: str | int | None = None,
        id_col: str = "unique_id",
        time_col: str = "ds",
        target_cols: Any = None,
    ) -> None:
        self.prediction_length = prediction_length
        self.context_length = context_length
        self.validation_size = validation_size
        self.penalties = penalties
        self.freq = freq
        self.id_col = id_col
        self.time_col = time_col
        self.target_cols = target_cols

    def _learn(self, panel: Panel) -> None:
        self.panel_ = panel  # a horizon not asked for yet is fitted when it is
        self.fits_: dict[int, RidgeFit] = {}
        self.look_back_ = min(check_integer("context_length", self.context_length, minimum=1), int(panel.lengths.max()))
        self._fit_horizon(self.prediction_length)

    def _forecast(self, context: np.ndarray, horizon: int) -> np.ndarray:
        last = context[:, -1:]
        centred = (context - last).transpose(0, 2, 1)  # (B, C, L)
        return last + (centred @ self._fit_horizon(horizon).weights).transpose(0, 2, 1)

    def _fit_horizon(self, horizon: int) -> RidgeFit:
        """Return the fit for one horizon, made once."""
        if horizon not in self.fits_:
            size, penalties = self.validation_size, self.penalties
            self.fits_[horizon] = fit_windows(self.panel_, self.look_back_, horizon, size, penalties)
        return self.fits_[horizon]
