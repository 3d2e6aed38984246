"""The estimator: frames in, frames out, fitted by the one training path."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from tsformer import __version__
from tsformer.config import DEFAULT_QUANTILES, DISTRIBUTIONS, check_integer, check_number, check_seed
from tsformer.data.frames import Restore, as_it_is, to_pandas
from tsformer.data.future import future_frame, given_values, with_future
from tsformer.data.panel import Panel, check_support, static_frame, to_frame, to_panel, to_path_frame
from tsformer.data.transforms import TargetTransform
from tsformer.evaluation.scoring import scaled_mae
from tsformer.fitted import FittedModel, can_sample
from tsformer.fitting import fit_model
from tsformer.intervals import check_names, interval_columns
from tsformer.nn.heads import QuantileHead
from tsformer.nn.model import device_of
from tsformer.persistence import read_fitted, write_fitted
from tsformer.plan import seed_of, training_config


class _Task(NamedTuple):
    """What a call of ``predict`` or ``sample`` asks for."""

    history: Panel
    panel: Panel
    """The history, with known covariates of the steps to come behind it."""
    windows: tuple[np.ndarray, np.ndarray, int]
    """Series and cut-offs (N,), and the horizon."""
    given: np.ndarray | None
    """(N, H, C) future values to go on from."""
    restore: Restore
    """To the caller's kind of frame."""


class TransformerForecaster(BaseEstimator):
    """Forecast time series with an encoder-decoder Transformer, decoded autoregressively.

    Parameters
    ----------
    prediction_length
        Steps to forecast unless ``predict`` is asked for others.
    context_length
        Steps of history the model sees; None: derived from frequency, horizon and length (``context_length_``).
    freq
        Frequency of the data (``"h"``, ``"D"``, ``"ME"``, ``"B"``, an integer step ...); None: the most common step.
    id_col, time_col
        Names of the id and time columns. A frame with the column ``id_col`` is long, every other one wide.
    target_cols
        Columns to forecast; None: ``y`` of a long frame, every numeric column of a wide one.
    known, observed, static
        Names of the covariates: columns whose values are known in the future too, known in the past only, or the same
        all along a series. Numbers, booleans, text or categories. ``static`` may also be a frame, one row an id. See
        the documentation of covariates.
    holidays
        Countries whose public holidays ``timestamp_encoding="calendar"`` knows: ``"DE"``, ``["FR", "DE-BY"]``.
    weight_col
        Column of what an error at each row counts in training and validation, 0 or more; None: all the same.
    patch_length
        Steps in one token; None: derived (``patch_length_``). 1 is the classic form.
    season_length
        Steps of a season, for ``scaling="last_season"``; None: the usual one of the frequency, else the strongest in
        the data (``season_length_``).
    d_model, nhead, num_encoder_layers, num_decoder_layers, dim_feedforward, dropout, activation, norm_first
        As in ``torch.nn.Transformer``.
    attention_dropout
        Dropout of attention weights.
    channel_mixing
        ``"independent"``: channels share the weights as series of their own; ``"joint"``: they are features of one
        token.
    positional_encoding
        ``"rotary"``, ``"sinusoidal"``, ``"learned"`` or ``"none"``.
    timestamp_encoding
        ``"calendar"``: learned embeddings of hour, weekday, month ... of each token; ``"none"``.
    scaling
        Location of each window: ``"last_season"``, ``"standard"`` (mean of the context), ``"last_value"``, ``"robust"``
        (median), ``"asinh"`` (median, large values compressed); no location: ``"mean_abs"`` (in units of the mean) and
        ``"none"``. None: ``"last_season"``, for log-normal and negative binomial ``"mean_abs"`` (``scaling_``).
    target_transform
        ``"log1p"``, ``"box_cox"`` or ``"yeo_johnson"``: the network works on transformed targets, forecasts come back
        in target units, means without the bias of the inverse; None: no transform.
    linear_path
        Add a linear map from context to next patch, which starts as ridge regression and which the decoder corrects.
    training_mode, teacher_forcing_ratio, teacher_forcing_share, detach_rollout, rollout_length
        See `TrainingConfig`: whether the model learns on its own patches or on the true ones; ``training_mode=None``:
        the true ones for distributions, else its own (``training_mode_``).
    mixup
        Mix training windows with others of their batch, context and target together: 0.5, say; 0: as they are. See the
        documentation of training.
    loss
        ``"mae"``, ``"mse"``, ``"huber"``, ``"quantile"`` or a callable ``loss(forecast, target)`` that returns one
        error for each element; or a distribution to learn by its likelihood, ``"normal"``, ``"student_t"``,
        ``"log_normal"`` (positive values) or ``"negative_binomial"`` (counts).
    quantiles
        Levels of ``loss="quantile"``; 0.5 is added where it is missing.
    validation_size
        Last part of the rows by time (share or steps) that chooses the best epoch.
    calibrate
        Give intervals their coverage by the errors on those rows (conformal prediction): a point forecast gets
        intervals, those of ``loss="quantile"`` are corrected.
    blend
        Forecast by a convex combination of the network, linear maps and the last season: closed forms from the training
        rows, weights (``blend_``) from the validation rows. False, or no such rows: the network alone; so are
        distributions, and quantiles that `sample` can draw from.
    batch_size, max_steps_per_epoch, max_epochs, max_steps, max_time, patience
        Extent of the training; ``max_time`` in seconds. ``max_steps`` takes the place of ``max_epochs``.
    optimizer, learning_rate, weight_decay, schedule, warmup, gradient_clip_val, accumulate_grad_batches
        Optimisation.
    accelerator, devices, precision, num_workers
        Where and in what precision.
    compile
        Compile the training step by ``torch.compile``, which needs a compiler and pays on a GPU in a long training.
    random_state
        Seed of weights, order of the data and dropout; None: another one each time. The global random state is left
        alone.
    callbacks, logger, trainer_kwargs
        Given to Lightning's ``Trainer``, copied, never altered.
    verbose
        Progress bar: True, False or ``"auto"`` (in a terminal or notebook, after two seconds).

    Attributes
    ----------
    context_length_, patch_length_, season_length_, rollout_length_ : int
        In use, steps.
    training_mode_, scaling_ : str
        In use.
    freq_ : str or int
        Frequency in use.
    targets_ : tuple
        Channel names.
    model_ : ForecastTransformer
        The network, in evaluation mode.
    blend_ : dict
        How much of the forecast is ``"network"``, ``"linear"`` and ``"seasonal"``, of sum 1; without a blend
        ``"network"`` alone.
    history_ : DataFrame
        Losses, one row an epoch, in units of each series' training deviation; under ``scaling="asinh"`` in scaled
        units, and of a distribution the mean negative log-likelihood in these.
    best_step_ : int
        Optimiser steps that led to the weights in use; 0: those of the start were the best on the validation rows.

    Raises
    ------
    ValueError, TypeError
        At ``fit``, before any training, for parameters or data that cannot work.

    Examples
    --------
    >>> import numpy as np
    >>> wave = np.sin(np.arange(200) * 2 * np.pi / 20)
    >>> model = TransformerForecaster(prediction_length=20, context_length=60, patch_length=20, max_steps=5)
    >>> model.fit(wave).predict().shape
    (20, 1)
    """

    _restore: Restore  # how a forecast without a history goes out
    _start: np.ndarray | None  # (L, P) what the linear path began as

    @property
    def prefix_consistent(self) -> bool:
        """Whether a shorter forecast is the beginning of a longer one.

        Not with known covariates: the last patch of the shorter one knows nothing of the steps behind it.
        """
        return not self.model_.config.known_sizes if hasattr(self, "model_") else self.known is None

    def __init__(
        self,
        prediction_length: int,
        *,
        context_length: int | None = None,
        freq: str | int | None = None,
        id_col: str = "unique_id",
        time_col: str = "ds",
        target_cols: Any = None,
        known: Any = None,
        observed: Any = None,
        static: Any = None,
        holidays: str | Sequence[str] | None = None,
        weight_col: str | int | None = None,
        patch_length: int | None = None,
        season_length: int | None = None,
        d_model: int = 64,
        nhead: int = 4,
        num_encoder_layers: int = 2,
        num_decoder_layers: int = 1,
        dim_feedforward: int = 128,
        dropout: float = 0.2,
        attention_dropout: float = 0.0,
        activation: str = "gelu",
        norm_first: bool = True,
        channel_mixing: str = "independent",
        positional_encoding: str = "rotary",
        timestamp_encoding: str = "none",
        scaling: str | None = None,
        target_transform: str | None = None,
        linear_path: bool = True,
        training_mode: str | None = None,
        teacher_forcing_ratio: float = 0.0,
        teacher_forcing_share: float = 0.5,
        detach_rollout: bool = True,
        rollout_length: int | None = None,
        mixup: float = 0.0,
        loss: str | Callable[..., Any] = "mae",
        quantiles: Sequence[float] = DEFAULT_QUANTILES,
        validation_size: float | int = 0.1,
        calibrate: bool = False,
        blend: bool = True,
        batch_size: int = 64,
        max_steps_per_epoch: int = 50,
        max_epochs: int = 20,
        max_steps: int | None = None,
        max_time: float | None = None,
        patience: int | None = 10,
        optimizer: str = "adamw",
        learning_rate: float = 1e-3,
        weight_decay: float = 0.01,
        schedule: str = "cosine",
        warmup: float | int = 0.1,
        gradient_clip_val: float | None = 1.0,
        accumulate_grad_batches: int = 1,
        accelerator: str = "auto",
        devices: int | str = 1,
        precision: str | int = "32-true",
        num_workers: int = 0,
        compile: bool = False,
        random_state: int | None = 0,
        callbacks: Sequence[Any] | None = None,
        logger: Any = None,
        trainer_kwargs: dict[str, Any] | None = None,
        verbose: bool | str = "auto",
    ) -> None:
        self.prediction_length = prediction_length
        self.context_length = context_length
        self.freq = freq
        self.id_col = id_col
        self.time_col = time_col
        self.target_cols = target_cols
        self.known = known
        self.observed = observed
        self.static = static
        self.holidays = holidays
        self.weight_col = weight_col
        self.patch_length = patch_length
        self.season_length = season_length
        self.d_model = d_model
        self.nhead = nhead
        self.num_encoder_layers = num_encoder_layers
        self.num_decoder_layers = num_decoder_layers
        self.dim_feedforward = dim_feedforward
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.activation = activation
        self.norm_first = norm_first
        self.channel_mixing = channel_mixing
        self.positional_encoding = positional_encoding
        self.timestamp_encoding = timestamp_encoding
        self.scaling = scaling
        self.target_transform = target_transform
        self.linear_path = linear_path
        self.training_mode = training_mode
        self.teacher_forcing_ratio = teacher_forcing_ratio
        self.teacher_forcing_share = teacher_forcing_share
        self.detach_rollout = detach_rollout
        self.rollout_length = rollout_length
        self.mixup = mixup
        self.loss = loss
        self.quantiles = quantiles
        self.validation_size = validation_size
        self.calibrate = calibrate
        self.blend = blend
        self.batch_size = batch_size
        self.max_steps_per_epoch = max_steps_per_epoch
        self.max_epochs = max_epochs
        self.max_steps = max_steps
        self.max_time = max_time
        self.patience = patience
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.warmup = warmup
        self.gradient_clip_val = gradient_clip_val
        self.accumulate_grad_batches = accumulate_grad_batches
        self.accelerator = accelerator
        self.devices = devices
        self.precision = precision
        self.num_workers = num_workers
        self.compile = compile
        self.random_state = random_state
        self.callbacks = callbacks
        self.logger = logger
        self.trainer_kwargs = trainer_kwargs
        self.verbose = verbose

    # ------------------------------------------------------------------ fitting

    def fit(self, X: Any, y: object = None) -> TransformerForecaster:
        """Train on the rows of ``X``, the last ``validation_size`` of them kept for choosing the best epoch.

        Parameters
        ----------
        X
            A long frame (``id_col, time_col`` and a target), a wide frame (time index or ``time_col``, each numeric
            column a channel), a Series, or an array (T,) or (T, C).
        y
            Ignored, as in scikit-learn's unsupervised estimators.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Before any training, for parameters or data that cannot work; during it when the loss becomes NaN.
        """
        training_config(vars(self))  # what is wrong with the parameters comes before what is wrong with the data
        X, restore = to_pandas(X)
        X = self.read_panel(X)  # a frame that was converted need not stay through the training
        self.fit_panel(X)
        self._restore = restore
        return self

    def read_panel(self, X: Any) -> Panel:
        """Return data as ``fit`` reads them: targets and covariates by the parameters."""
        read_as = ("freq", "id_col", "time_col", "target_cols", "weight_col", "known", "observed", "static")
        return to_panel(X, **{name: getattr(self, name) for name in read_as})

    def fit_panel(
        self, panel: Panel, start: np.ndarray | None = None, transform: TargetTransform | None = None
    ) -> TransformerForecaster:
        """Train on a panel; ``fit`` without the way in from a frame.

        ``start`` (L, P) is the linear map that the linear path starts from where no validation rows choose one,
        ``transform`` one that is fitted already.
        """
        fit = fit_model(panel, vars(self), start, transform)
        self._take(fit.model)
        self.rollout_length_, self.training_mode_ = fit.plan.rollout_length, fit.plan.training.training_mode
        self.history_, self.best_step_ = pd.DataFrame(fit.training.history), fit.training.best_step
        self._start = fit.start
        return self

    def _take(self, fitted: FittedModel) -> None:
        """Show what was fitted as attributes."""
        config = fitted.network.config
        self._fitted = fitted
        self._restore = as_it_is  # ``fit`` knows what frame the data were
        self.model_ = fitted.network
        self.context_length_, self.patch_length_ = config.context_length, config.patch_length
        self.season_length_, self.scaling_ = config.season_length, config.scaling
        self.freq_, self.targets_ = fitted.schema.freq, fitted.schema.targets
        self.blend_ = {"network": 1.0} if fitted.blend is None else fitted.blend.shares
        self.n_features_in_ = len(fitted.schema.targets)

    # ------------------------------------------------------------------ forecasting

    def predict(
        self,
        X: Any = None,
        horizon: int | None = None,
        quantiles: Sequence[float] | None = None,
        level: Sequence[float] | float | None = None,
        batch_size: int | None = None,
        future: Any = None,
        given: Any = None,
    ) -> Any:
        """Forecast the steps after the last row of each series.

        Parameters
        ----------
        X
            The history to forecast from, in the layout the model was fitted on; columns are matched by name. None:
            the end of the training data.
        horizon
            Steps; any number. None: ``prediction_length``.
        quantiles
            Levels in (0, 1); columns ``-lo-80`` for 0.1, ``-median``, ``-hi-80`` for 0.9. Needs ``calibrate=True``,
            ``loss="quantile"`` or a distribution.
        level
            Coverage of central intervals in percent, such as ``[80, 95]``. Needs the same.
        batch_size
            Windows forecast at a time; None: as many as fit in a quarter of a gigabyte.
        future
            Known covariates of the steps to come: a frame laid out like the history, matched by id, stamp and column
            name. `make_future` returns one to fill.
        given
            Future values of targets that are known or assumed, in the layout of the data and matched by id, stamp and
            column name; what is NaN or not there is forecast. The decoder goes on from them, and they are in the
            output as they are.

        Returns
        -------
        DataFrame or Series
            Target units, in the caller's layout (see the documentation of frames) and of the library that ``X`` is of
            (without ``X``: that the training data were of; after `load` pandas). Of a distribution the mean; mean and
            quantiles beyond the first patch are those of 200 sample paths, the same in every call.

        Raises
        ------
        ValueError
            For a history that does not fit the training data, levels the model has not learned, a ``future`` that
            lacks ids, steps, columns or values (it lists them), or given values that are no steps of the forecast.
        NotFittedError
            Before ``fit``.
        """
        check_names(interval_columns(quantiles, level), getattr(self, "targets_", ()))
        task = self._to_forecast(X, horizon, batch_size, future, given)
        columns = self.forecast_columns(
            task.panel, *task.windows, quantiles=quantiles, level=level, batch_size=batch_size, given=task.given
        )
        return task.restore(to_frame(task.history, columns, name=type(self).__name__))

    def sample(
        self,
        n: int = 100,
        X: Any = None,
        horizon: int | None = None,
        *,
        temperature: float = 1.0,
        top_p: float = 1.0,
        seed: int | None = None,
        batch_size: int | None = None,
        future: Any = None,
        given: Any = None,
    ) -> Any:
        """Draw joint sample paths of the steps after the last row of each series.

        A path is drawn patch by patch, each fed back, so that sums, maxima and changes over the horizon have the
        distribution that they have in its columns. Paths of different series are independent.

        Parameters
        ----------
        n
            Paths.
        X, horizon, batch_size, future, given
            As in `predict`.
        temperature
            Above 1 wilder, below 1 tamer than what was learned; 0: the path of medians.
        top_p
            Share of the probability to draw from, the middle of each distribution; 1: all.
        seed
            The same seed gives the same paths, in any batch. None: ``random_state``.

        Returns
        -------
        DataFrame
            As `predict` gives it, one column a path: ``TransformerForecaster-sample-1`` ..., or ``target-sample-1`` ...

        Raises
        ------
        ValueError
            For a model that has not learned a distribution, and what `predict` refuses.
        NotFittedError
            Before ``fit``.

        Examples
        --------
        >>> import numpy as np
        >>> walk = np.random.default_rng(0).normal(size=200).cumsum()
        >>> model = TransformerForecaster(10, loss="normal", context_length=20, patch_length=5, max_steps=5).fit(walk)
        >>> paths = model.sample(100)
        >>> paths.shape, paths.sum().quantile([0.1, 0.9]).size  # an 80 % interval of the sum over 10 steps
        ((10, 100), 2)
        """
        check_is_fitted(self, "model_")
        check_integer("n", n, minimum=1)
        temperature = check_number("temperature", temperature, minimum=0.0)
        top_p = check_number("top_p", top_p, above=0.0, maximum=1.0)
        seed = seed_of(self.random_state) if seed is None else check_seed("seed", seed)
        if not can_sample(self.model_, self.training_mode_):
            if isinstance(self.model_.head, QuantileHead):
                raise ValueError(
                    f"sample needs quantiles of what follows a true past: train with training_mode='teacher_forcing' "
                    f"and quantiles below and above 0.5 (training_mode_ is {self.training_mode_!r}), or with a "
                    f"distribution, loss={' or '.join(map(repr, DISTRIBUTIONS))}"
                )
            raise ValueError(
                f"sample needs a distribution, and a point forecast has none: train with "
                f"loss={' or '.join(map(repr, DISTRIBUTIONS))}"
            )
        task = self._to_forecast(X, horizon, batch_size, future, given)
        paths = self._fitted.sample(
            task.panel,
            *task.windows,
            n,
            temperature=temperature,
            top_p=top_p,
            seed=seed,
            batch_size=batch_size,
            device=self._device(),
            given=task.given,
        )
        return task.restore(to_path_frame(task.history, paths, name=type(self).__name__))

    def _to_forecast(self, X: Any, horizon: int | None, batch_size: int | None, future: Any, given: Any) -> _Task:
        """Return what a call asks for, checked."""
        check_is_fitted(self, "model_")
        horizon = check_integer("horizon", self.prediction_length if horizon is None else horizon, minimum=1)
        if batch_size is not None:
            check_integer("batch_size", batch_size, minimum=1)
        X, restore = (None, self._restore) if X is None else to_pandas(X)
        history = self._history(X)
        windows = np.arange(history.n_series), history.lengths, horizon
        known = None if given is None else given_values(history, given, horizon, self.loss)
        return _Task(history, with_future(history, future, horizon), windows, known, restore)

    def make_future(self, X: Any = None, horizon: int | None = None) -> Any:
        """Return the frame of known covariates that ``predict`` needs, to fill.

        Parameters
        ----------
        X
            The history to forecast from; None: the end of the training data.
        horizon
            Steps; None: ``prediction_length``.

        Returns
        -------
        DataFrame
            Ids and stamps of the steps to come, in the caller's layout; the covariates' columns are empty.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        """
        check_is_fitted(self, "model_")
        horizon = check_integer("horizon", self.prediction_length if horizon is None else horizon, minimum=1)
        X, restore = (None, self._restore) if X is None else to_pandas(X)
        return restore(future_frame(self._history(X), horizon))

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
            (B, H, C) float64, target units: the point forecast, the median, or the mean of a distribution.
        """
        return self.forecast_columns(panel, series, cutoffs, horizon)[""]

    def forecast_columns(
        self,
        panel: Panel,
        series: np.ndarray,
        cutoffs: np.ndarray,
        horizon: int,
        *,
        quantiles: Sequence[float] | None = None,
        level: Sequence[float] | float | None = None,
        batch_size: int | None = None,
        given: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """Forecast windows as `forecast_windows` does, with the quantiles, intervals and given values of `predict`.

        Parameters
        ----------
        panel, series, cutoffs, horizon
            As in `forecast_windows`.
        quantiles, level, batch_size
            As in `predict`.
        given
            (B, H, C) target units, NaN where the model decides; None: everywhere.

        Returns
        -------
        dict
            Suffix of the column (``""``, ``"-median"``, ``"-lo-80"`` ...) to (B, H, C) float64, target units.
        """
        check_is_fitted(self, "model_")
        return self._fitted.columns(
            panel,
            series,
            cutoffs,
            horizon,
            interval_columns(quantiles, level),
            batch_size=batch_size,
            device=self._device(),
            given=given,
        )

    def _history(self, X: Any) -> Panel:
        """Return what the caller forecasts from or scores on, held to the data of the fit; None: their end."""
        schema, tail = self._fitted.schema, self._fitted.tail
        if X is None:
            if tail is None:
                raise ValueError("this model was saved without its history: give it the history to forecast from, X")
            return tail
        X, _ = to_pandas(X)
        if schema.layout == "array" and np.ndim(X) == 2 and not isinstance(X, pd.DataFrame):
            validate_data(self, X, reset=False, skip_check_array=True)  # scikit-learn's words for a wrong width
        panel = to_panel(X, schema=schema, static=self._static_of(X))
        check_support(panel, self.loss)
        return panel

    def _static_of(self, X: Any) -> Any:
        """Return a frame of the static covariates where ``X`` has no columns of them; None where it has."""
        names = {covariate.name for covariate in self._fitted.schema.of_role("static")}
        missing = sorted(map(repr, names - set(getattr(X, "columns", ()))))
        if not missing:
            return None
        if len(missing) < len(names):
            raise ValueError(
                f"X has some of the static covariates, and not {', '.join(missing)}: give all of their columns, or "
                f"none to take the values of the fit"
            )
        if hasattr(self.static, "columns"):
            return self.static
        return None if self._fitted.tail is None else static_frame(self._fitted.tail)

    def _device(self) -> torch.device:
        """Where forecasts are made."""
        return device_of(self.accelerator)

    # ------------------------------------------------------------------ scoring and saving

    def score(self, X: Any, y: object = None) -> float:
        """Return minus the mean scaled MAE on the rows after training.

        Parameters
        ----------
        X
            What came next, from one step after the last training row. Longer than ``prediction_length``, it is
            forecast window by window, the history growing with it.
        y
            Ignored.

        Returns
        -------
        float
            Minus the MAE divided by each series' training deviation, averaged over series, then targets.

        Raises
        ------
        ValueError
            When ``X`` does not start where the training rows end; it names both stamps.
        """
        check_is_fitted(self, "model_")
        if self._fitted.tail is None:
            raise ValueError("this model was saved without its history, which score continues from")
        deviation = self._fitted.statistics.deviation
        return -scaled_mae(
            self.forecast_windows, self._fitted.tail, self._history(X), deviation, self.prediction_length
        )

    def save(self, path: str | os.PathLike[str], *, include_history: bool = True) -> Path:
        """Write the fitted model to one ``.safetensors`` file, without pickle, whole or not at all.

        Parameters
        ----------
        path
            File; ``.safetensors`` is added where it is missing.
        include_history
            Keep the last ``context_length_`` rows of each series, which ``predict()`` without a history needs.

        Returns
        -------
        Path
            Of the file written.

        Raises
        ------
        ValueError
            When the folder does not exist.
        """
        check_is_fitted(self, "model_")
        about = {
            "params": self._plain_params(),
            "rollout_length": self.rollout_length_,
            "training_mode": self.training_mode_,
            "best_step": self.best_step_,
            "training": self.history_.astype(object).where(self.history_.notna(), None).to_dict("list"),
            "versions": {"tsformer": __version__, "torch": torch.__version__},
        }
        return write_fitted(self._fitted, path, about, include_history=include_history)

    def _plain_params(self) -> dict[str, Any]:
        """Parameters that a file can hold; a loss of the user's own comes back as None."""
        params = self.get_params(deep=False)
        for name in ("callbacks", "logger", "trainer_kwargs"):
            params[name] = None
        if callable(params["loss"]):
            params["loss"] = None
        if not isinstance(params["freq"], (str, int)):
            params["freq"] = None if params["freq"] is None else self.freq_
        if not isinstance(params["random_state"], (int, np.integer)):
            params["random_state"] = None
        if hasattr(params["static"], "columns"):  # the values are kept with the history
            params["static"] = [covariate.name for covariate in self._fitted.schema.of_role("static")]
        several = (tuple, set, frozenset, np.ndarray, pd.Index)
        return {name: list(p) if isinstance(p, several) else p for name, p in params.items()}

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn asks about: missing values are fine, there is no ``y``."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = False
        tags.non_deterministic = self.random_state is None
        return tags


def load(path: str | os.PathLike[str]) -> TransformerForecaster:
    """Load a model that ``TransformerForecaster.save`` wrote, on any machine.

    Parameters
    ----------
    path
        The ``.safetensors`` file, with or without that ending. It holds tensors and JSON: nothing in it is executed.

    Returns
    -------
    TransformerForecaster
        Fitted, ready to ``predict``.

    Raises
    ------
    ValueError
        When there is no such file, or it is no model of this library.
    """
    fitted, about = read_fitted(path)
    forecaster = TransformerForecaster(**about["params"])
    forecaster._take(fitted)
    forecaster.rollout_length_ = about["rollout_length"]
    forecaster.training_mode_, forecaster.best_step_ = about["training_mode"], about["best_step"]
    forecaster.history_ = pd.DataFrame(about["training"])
    return forecaster
