"""What a model is and how it is trained: every default is written here, once."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

ChannelMixing = Literal["independent", "joint"]
PositionalEncoding = Literal["rotary", "sinusoidal", "learned", "none"]
TimestampEncoding = Literal["none", "calendar"]
Scaling = Literal["standard", "last_season", "last_value", "robust", "asinh", "mean_abs", "none"]
TargetTransform = Literal["log1p", "box_cox", "yeo_johnson"]
Activation = Literal["gelu", "relu"]
TrainingMode = Literal["free_running", "teacher_forcing", "mixed"]
Distribution = Literal["normal", "student_t", "log_normal", "negative_binomial"]
Loss = Literal["mae", "mse", "huber", "quantile", Distribution]
Optimizer = Literal["adamw", "adam"]
Schedule = Literal["cosine", "noam", "constant"]

CHOICES: dict[str, tuple[str, ...]] = {
    "channel_mixing": get_args(ChannelMixing),
    "positional_encoding": get_args(PositionalEncoding),
    "timestamp_encoding": get_args(TimestampEncoding),
    "scaling": get_args(Scaling),
    "target_transform": get_args(TargetTransform),
    "distribution": get_args(Distribution),
    "activation": get_args(Activation),
    "training_mode": get_args(TrainingMode),
    "loss": get_args(Loss),
    "optimizer": get_args(Optimizer),
    "schedule": get_args(Schedule),
}

DISTRIBUTIONS: tuple[str, ...] = get_args(Distribution)
# Distributions of positive values, which have no location to shift, and the scalings that leave it at 0.
POSITIVE_DISTRIBUTIONS = ("log_normal", "negative_binomial")
UNSHIFTED_SCALINGS = ("mean_abs", "none")

# Short names of Lightning; it clips gradients in half precision only under the long ones.
PRECISIONS = {"16": "16-mixed", "bf16": "bf16-mixed", "32": "32-true", "64": "64-true"}

DEFAULT_QUANTILES = (0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975)


@dataclass(frozen=True)
class ModelConfig:
    """The architecture: everything that decides the shapes of the weights and what they mean.

    The first four have no default here: ``fit`` derives them from frequency, horizon and length
    where the user does not give them.

    Parameters
    ----------
    context_length
        Steps of history the encoder sees.
    patch_length
        Steps in one token; 1 is the classic form, one token a time step.
    season_length
        Steps whose mean centres a window under ``scaling="last_season"``.
    max_decoder_length
        Longest horizon that ``positional_encoding="learned"`` has positions for, in steps.
    n_channels
        Channels that one token holds: the number of targets under ``channel_mixing="joint"``, else 1.
    calendar_sizes
        Levels of each calendar field (24 for the hour of the day, ...); empty without
        ``timestamp_encoding``.
    quantiles
        Levels of the quantile head, in increasing order and with 0.5 among them; empty for the other heads.
    known_sizes, observed_sizes, static_sizes
        Levels of each covariate of that role, 0 for numbers.
    n_targets
        Targets that known covariates have an effect on.
    distribution
        Distribution of the head; None for a point or quantile head.
    scaling
        None: ``"last_season"``; ``"mean_abs"`` for distributions of positive values, which admit ``"none"`` beside it.
    target_transform
        What the targets go through before the network and their forecasts after it; None: nothing.
    linear_path
        Add a linear map from context to next patch, fed back, which the decoder corrects. There is none to
        distributions of positive values, nor under ``scaling="asinh"``.

    Raises
    ------
    TypeError, ValueError
        For a value of the wrong type, outside its range, or not among the choices.
    """

    context_length: int
    patch_length: int
    season_length: int
    max_decoder_length: int
    n_channels: int = 1
    calendar_sizes: tuple[int, ...] = ()
    quantiles: tuple[float, ...] = ()
    known_sizes: tuple[int, ...] = ()
    observed_sizes: tuple[int, ...] = ()
    static_sizes: tuple[int, ...] = ()
    n_targets: int = 1
    distribution: Distribution | None = None
    d_model: int = 64
    nhead: int = 4
    num_encoder_layers: int = 2
    num_decoder_layers: int = 1
    dim_feedforward: int = 128
    dropout: float = 0.2
    attention_dropout: float = 0.0
    activation: Activation = "gelu"
    norm_first: bool = True
    channel_mixing: ChannelMixing = "independent"
    positional_encoding: PositionalEncoding = "rotary"
    timestamp_encoding: TimestampEncoding = "none"
    scaling: Scaling | None = None
    target_transform: TargetTransform | None = None
    linear_path: bool = True

    def __post_init__(self) -> None:
        for name in (
            "context_length",
            "patch_length",
            "season_length",
            "max_decoder_length",
            "n_channels",
            "n_targets",
            "d_model",
            "nhead",
            "num_encoder_layers",
            "num_decoder_layers",
            "dim_feedforward",
        ):
            check_integer(name, getattr(self, name), minimum=1)
        for name in ("dropout", "attention_dropout"):
            check_number(name, getattr(self, name), minimum=0.0, below=1.0)
        check_bool("norm_first", self.norm_first)
        check_bool("linear_path", self.linear_path)
        if self.scaling is None:
            is_positive = self.distribution in POSITIVE_DISTRIBUTIONS
            object.__setattr__(self, "scaling", "mean_abs" if is_positive else "last_season")
        check_choices(self)
        if self.distribution is not None and self.quantiles:
            raise ValueError(f"a head has quantiles or distribution={self.distribution!r}, not both")
        if self.distribution in POSITIVE_DISTRIBUTIONS and self.scaling not in UNSHIFTED_SCALINGS:
            raise ValueError(
                f"scaling={self.scaling!r} shifts the values, and loss={self.distribution!r} is about positive ones: "
                f"leave scaling to None, or take one of {', '.join(map(repr, UNSHIFTED_SCALINGS))}"
            )
        if self.distribution == "student_t" and (self.target_transform is not None or self.scaling == "asinh"):
            cause = "scaling='asinh'" if self.scaling == "asinh" else f"target_transform={self.target_transform!r}"
            raise ValueError(
                f"loss='student_t' with {cause} has no mean: its tails become infinitely heavy on the way back. Take "
                f"loss='normal', or leave out one of the two"
            )
        if self.distribution in POSITIVE_DISTRIBUTIONS and self.target_transform is not None:
            raise ValueError(
                f"target_transform={self.target_transform!r} changes the kind of values that "
                f"loss={self.distribution!r} is about: leave it out, or take loss='normal' or 'student_t'"
            )
        if self.d_model % self.nhead:
            raise ValueError(f"d_model={self.d_model} must be a multiple of nhead={self.nhead}")
        if self.positional_encoding == "rotary" and (self.d_model // self.nhead) % 2:
            raise ValueError(
                f"positional_encoding='rotary' turns pairs of features: d_model / nhead must be even, got "
                f"{self.d_model} / {self.nhead} = {self.d_model // self.nhead}"
            )
        if self.positional_encoding == "sinusoidal" and self.d_model % 2:
            raise ValueError(f"positional_encoding='sinusoidal' needs an even d_model, got {self.d_model}")
        if self.patch_length > self.context_length:
            raise ValueError(
                f"patch_length={self.patch_length} is longer than context_length={self.context_length}: "
                f"lower patch_length or raise context_length"
            )

    @property
    def has_linear_path(self) -> bool:
        """Whether there is a linear path: not to positive distributions, nor where values are compressed."""
        return self.linear_path and self.distribution not in POSITIVE_DISTRIBUTIONS and self.scaling != "asinh"

    @property
    def n_context_patches(self) -> int:
        """Tokens of the encoder: the context in whole patches, the first padded on its left."""
        return -(-self.context_length // self.patch_length)

    @property
    def max_decoder_patches(self) -> int:
        """Tokens that the decoder's learned positions cover."""
        return -(-self.max_decoder_length // self.patch_length)


@dataclass(frozen=True)
class TrainingConfig:
    """How the weights are found.

    Parameters
    ----------
    training_mode
        ``"free_running"``: on the model's own patches, as in forecasting; ``"teacher_forcing"``: on the
        true ones; ``"mixed"``: teacher forcing for the first ``teacher_forcing_share`` of the steps, then
        each fed patch is the truth with probability ``teacher_forcing_ratio``. None: teacher forcing for
        distributions, whose paths need what follows *given* what was drawn, else free running.
    detach_rollout
        Stop the gradient at each patch fed back.
    rollout_length
        Steps decoded in one training window; None: ``prediction_length``, at most 8 patches or 96 steps,
        whichever is more. Independent of the horizon asked for later.
    mixup
        Mix training windows with others of their batch, context and target together: the concentration of the beta
        distribution that the shares are drawn from; 0: as they are. For losses of a point, without covariates.
    loss
        A name, or a callable ``loss(forecast, target) -> Tensor`` of the same shape, element by element. The name of
        a distribution: its negative log-likelihood.
    quantiles
        Levels for ``loss="quantile"``.
    validation_size
        Last part of the rows by time, as a share or a number of steps; 0: no validation.
    calibrate
        Give intervals their coverage by the errors on the validation rows (conformal prediction).
    blend
        Forecast by a convex combination of the network, linear maps and the last season, with weights from the
        validation rows. Not for distributions.
    max_steps_per_epoch
        An epoch is one pass over all windows, at most this many batches; in small data several passes, 50 batches.
    patience
        Epochs without a better validation error before training stops; None: never stop early.
    warmup
        Steps of linear warm-up: a share of all steps (float) or a number (int).
    compile
        Compile the training step, from the batch to its loss, by ``torch.compile``; rollouts of up to 16 patches.
    """

    training_mode: TrainingMode | None = None
    teacher_forcing_ratio: float = 0.0
    teacher_forcing_share: float = 0.5
    detach_rollout: bool = True
    rollout_length: int | None = None
    mixup: float = 0.0
    loss: Loss | Callable[..., Any] = "mae"
    quantiles: tuple[float, ...] = DEFAULT_QUANTILES
    validation_size: float | int = 0.1
    calibrate: bool = False
    blend: bool = True
    batch_size: int = 64
    max_steps_per_epoch: int = 50
    max_epochs: int = 20
    max_steps: int | None = None
    max_time: float | None = None
    patience: int | None = 10
    optimizer: Optimizer = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    schedule: Schedule = "cosine"
    warmup: float | int = 0.1
    gradient_clip_val: float | None = 1.0
    accumulate_grad_batches: int = 1
    accelerator: str = "auto"
    devices: int | str = 1
    precision: str | int = "32-true"
    num_workers: int = 0
    compile: bool = False

    def __post_init__(self) -> None:
        for name in ("batch_size", "max_steps_per_epoch", "max_epochs", "accumulate_grad_batches"):
            check_integer(name, getattr(self, name), minimum=1)
        for name in ("rollout_length", "max_steps", "patience"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), minimum=1)
        check_integer("num_workers", self.num_workers, minimum=0)
        check_number("teacher_forcing_ratio", self.teacher_forcing_ratio, minimum=0.0, maximum=1.0)
        check_number("teacher_forcing_share", self.teacher_forcing_share, minimum=0.0, maximum=1.0)
        check_number("mixup", self.mixup, minimum=0.0)
        check_bool("detach_rollout", self.detach_rollout)
        check_bool("calibrate", self.calibrate)
        check_bool("blend", self.blend)
        check_bool("compile", self.compile)
        object.__setattr__(self, "precision", PRECISIONS.get(str(self.precision), self.precision))
        if self.precision in ("16-true", "bf16-true"):
            raise ValueError(
                f"precision={self.precision!r} would keep the weights in half precision, too: take "
                f"{self.precision.replace('true', 'mixed')!r}, which computes in it"
            )
        check_number("learning_rate", self.learning_rate, above=0.0)
        check_number("weight_decay", self.weight_decay, minimum=0.0)
        for name in ("validation_size", "warmup"):
            value = getattr(self, name)
            if isinstance(value, float):
                check_number(name, value, minimum=0.0, below=1.0)
            else:
                check_integer(name, value, minimum=0)
        if self.gradient_clip_val is not None:
            check_number("gradient_clip_val", self.gradient_clip_val, above=0.0)
        if self.max_time is not None:
            check_number("max_time", self.max_time, above=0.0, below=1e9)
        if self.training_mode is None:
            is_distribution = isinstance(self.loss, str) and self.loss in DISTRIBUTIONS
            object.__setattr__(self, "training_mode", "teacher_forcing" if is_distribution else "free_running")
        check_choices(self)
        levels = check_quantiles("quantiles", self.quantiles)
        object.__setattr__(self, "quantiles", levels)
        if self.mixup and (self.loss in DISTRIBUTIONS or self.loss == "quantile"):
            raise ValueError(
                f"mixup={self.mixup:g} is for losses of a point: a mean of two windows has less noise than each, and "
                f"loss={self.loss!r} would learn intervals that are too narrow. Set mixup=0, or take loss='mae', "
                f"'mse' or 'huber'"
            )
        if self.patience is not None and not self.validation_size:
            raise ValueError(
                f"patience={self.patience} stops training on the validation error, but validation_size=0 leaves "
                f"no rows to measure it on: set validation_size (0.1, say), or patience=None to train to the end"
            )
        if self.calibrate and self.loss in DISTRIBUTIONS:
            raise ValueError(
                f"calibrate=True is for point and quantile losses: the intervals of loss={self.loss!r} are those of "
                f"its sample paths. Leave it out, or take loss='quantile'"
            )
        if self.calibrate and not self.validation_size:
            raise ValueError(
                "calibrate=True measures errors on the validation rows, and validation_size=0 leaves none: "
                "set validation_size (0.1, say), or calibrate=False"
            )
        if self.calibrate and self.loss == "quantile" and not quantile_pairs(levels):
            raise ValueError(
                f"calibrate=True needs quantiles that are the two ends of an interval, such as 0.1 and 0.9, "
                f"got {list(levels)}"
            )


def check_integer(name: str, value: object, *, minimum: int) -> int:
    """Return ``value`` as an int of at least ``minimum``, or say what is wrong with it."""
    # numpy integers count; True does not.
    try:
        if _is_bool(value):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        shown = f"{value!r} of type " if isinstance(value, (str, float, bool)) else ""
        raise TypeError(f"{name} must be a whole number, got {shown}{type(value).__name__}") from None
    if number < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {number}")
    return number


def check_seed(name: str, value: object) -> int:
    """Return ``value`` as an int that seeds random numbers, or say what is wrong with it."""
    seed = check_integer(name, value, minimum=0)
    if seed >= 2**64:
        raise ValueError(f"{name} must be below 2**64, got {seed}")
    return seed


def check_number(
    name: str,
    value: object,
    *,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    below: float | None = None,
) -> float:
    """Return ``value`` as a float inside the bounds, or say what is wrong with it."""
    try:
        if isinstance(value, str) or _is_bool(value):
            raise TypeError
        number = float(value)  # type: ignore[arg-type]
    except OverflowError:
        raise ValueError(f"{name} must be finite, got a whole number beyond all floats") from None
    except TypeError:
        raise TypeError(f"{name} must be a number, got {value!r} of type {type(value).__name__}") from None
    bounds = [
        (minimum is not None and number < minimum, f"at least {minimum:g}" if minimum is not None else ""),
        (above is not None and number <= above, f"above {above:g}" if above is not None else ""),
        (maximum is not None and number > maximum, f"at most {maximum:g}" if maximum is not None else ""),
        (below is not None and number >= below, f"below {below:g}" if below is not None else ""),
    ]
    broken = [text for wrong, text in bounds if wrong]
    if broken or not math.isfinite(number):
        raise ValueError(f"{name} must be {' and '.join(broken) or 'finite'}, got {value!r}")
    return number


def check_bool(name: str, value: object) -> bool:
    """Return ``value`` if it is a bool, or say that it is not."""
    if not _is_bool(value):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def _is_bool(value: object) -> bool:
    """Whether a value is True or False, numpy's among them."""
    return type(value).__name__ in ("bool", "bool_")


def check_choices(config: ModelConfig | TrainingConfig) -> None:
    """Hold every field that has a list of choices against that list."""
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name not in CHOICES or (field.name == "loss" and callable(value)):
            continue
        if value is None and field.default is None:
            continue
        if value not in CHOICES[field.name]:
            options = ", ".join(map(repr, CHOICES[field.name]))
            extra = " or a callable" if field.name == "loss" else ""
            raise ValueError(f"{field.name}={value!r} is not one of {options}{extra}")


def quantile_pairs(levels: Sequence[float]) -> dict[float, tuple[int, int]]:
    """Return the coverage in percent of each pair of quantiles q and 1 - q, and their places; narrowest first."""
    place = {round(float(q), 9): number for number, q in enumerate(levels)}
    pairs = {
        round(100 * (1 - 2 * q), 6): (number, place[round(1 - q, 9)])
        for q, number in place.items()
        if q < 0.5 and round(1 - q, 9) in place
    }
    return dict(sorted(pairs.items()))


def check_quantiles(name: str, levels: object) -> tuple[float, ...]:
    """Return quantile levels in increasing order, each in (0, 1), none twice."""
    if isinstance(levels, (int, float)):
        levels = (levels,)
    try:
        values = tuple(sorted(float(q) for q in levels))  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a list of numbers between 0 and 1, got {levels!r}") from None
    if not values or not all(0.0 < q < 1.0 for q in values):
        raise ValueError(f"{name} must lie between 0 and 1 (both excluded), got {list(values)}")
    if len(set(values)) < len(values):
        raise ValueError(f"{name} names a level twice: {list(values)}")
    return values
