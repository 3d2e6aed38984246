"""Heads that forecast a distribution: projection, negative log-likelihood, mean, quantile function and its inverse.

All in scaled units. A *normal score* z stands for the quantile of level Phi(z): the value of score 0 is the median, and
scores drawn from N(0, 1) give draws from the distribution. So temperature, truncation and dependence between the steps
of a patch are matters of the scores alone, the same for every head.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy import special
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tsformer.config import Distribution

# Spreads, in units of the window, that no likelihood may fall below: it has no bound on data without noise.
MIN_SPREAD = 1e-3
# Counts of 10,000 times their mean in variance or more than a Poisson's are told apart no further.
MIN_DISPERSION = 1e-4
# Probabilities beyond these scores are 0 and 1 in float64.
MAX_SCORE = 8.0
# Counts up to here are found by adding up probabilities, which is faster than scipy's search.
MAX_COUNTED = 64


class DistributionHead(nn.Module):
    """Parameters of one distribution for each step and channel of the patch.

    Attributes
    ----------
    counts
        Whether the values are whole numbers in target units.
    copula
        (W, W) lower triangular: turns independent normal scores into those of one patch. The identity until
        ``fit_copula``.
    """

    levels: tuple[float, ...] = ()
    is_distribution = True
    counts = False
    n_parameters = 2
    copula: torch.Tensor

    def __init__(self, d_model: int, width: int) -> None:
        super().__init__()
        self.projection = nn.Linear(d_model, width * self.n_parameters)
        self.register_buffer("copula", torch.eye(width))

    def forward(
        self, x: torch.Tensor, unit: torch.Tensor | None = None, base: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the parameters of states (..., D), (..., W, K).

        ``unit`` (..., W) is the scale of the window, ``base`` (..., W) what the location starts from.
        """
        raw = self.projection(x).unflatten(-1, (-1, self.n_parameters))
        raw = raw.to(torch.promote_types(raw.dtype, torch.float32))  # likelihoods need the digits
        if base is not None:
            raw = torch.cat([raw[..., :1] + base.unsqueeze(-1), raw[..., 1:]], -1)
        return self._constrain(raw, unit)

    def reset(self) -> None:
        """Make the location 0 whatever the state."""
        for parameter in (self.projection.weight, self.projection.bias):
            parameter.unflatten(0, (-1, self.n_parameters))[:, 0].zero_()

    def loss(self, output: torch.Tensor, target: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Negative log-likelihood of each element of ``target`` (...); 0 where ``weight`` is: a series that is flat."""
        return torch.where(weight > 0, self._nll(output, target), 0.0)

    def point(self, output: torch.Tensor) -> torch.Tensor:
        """Mean, (..., K) to (...)."""
        raise NotImplementedError

    def sample(self, output: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Values at normal scores ``z`` (...), broadcast against ``output`` (..., K)."""
        raise NotImplementedError

    def scores(self, output: torch.Tensor, target: torch.Tensor, generator: np.random.Generator) -> torch.Tensor:
        """Return normal scores of ``target`` (...), the inverse of `sample`; counts draw theirs between neighbours."""
        raise NotImplementedError

    def _constrain(self, raw: torch.Tensor, unit: torch.Tensor | None) -> torch.Tensor:
        raise NotImplementedError

    def _nll(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class NormalHead(DistributionHead):
    """Location and deviation."""

    def _constrain(self, raw: torch.Tensor, unit: torch.Tensor | None) -> torch.Tensor:
        return torch.stack([raw[..., 0], _spread(raw[..., 1])], -1)

    def _nll(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        loc, spread = output.unbind(-1)
        return 0.5 * ((target - loc) / spread).square() + spread.log() + 0.5 * math.log(2 * math.pi)

    def point(self, output: torch.Tensor) -> torch.Tensor:
        """Mean, (..., 2) to (...)."""
        return output[..., 0]

    def sample(self, output: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Values at normal scores ``z``."""
        return output[..., 0] + output[..., 1] * z

    def scores(self, output: torch.Tensor, target: torch.Tensor, generator: np.random.Generator) -> torch.Tensor:
        """Return normal scores of ``target``."""
        return (target - output[..., 0]) / output[..., 1]


class LogNormalHead(NormalHead):
    """The logarithm is normal: positive values."""

    def _nll(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        log = _log(target)
        return super()._nll(output, log) + log

    def point(self, output: torch.Tensor) -> torch.Tensor:
        """Mean, (..., 2) to (...)."""
        return (output[..., 0] + 0.5 * output[..., 1].square()).exp()

    def sample(self, output: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Values at normal scores ``z``."""
        return super().sample(output, z).exp()

    def scores(self, output: torch.Tensor, target: torch.Tensor, generator: np.random.Generator) -> torch.Tensor:
        """Return normal scores of ``target``."""
        return super().scores(output, _log(target), generator)


class StudentTHead(DistributionHead):
    """Location, spread and degrees of freedom, above 2 so that the variance is finite."""

    n_parameters = 3

    def _constrain(self, raw: torch.Tensor, unit: torch.Tensor | None) -> torch.Tensor:
        return torch.stack([raw[..., 0], _spread(raw[..., 1]), 2 + F.softplus(raw[..., 2])], -1)

    def _nll(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        loc, spread, df = output.unbind(-1)
        constant = torch.lgamma(0.5 * df) - torch.lgamma(0.5 * (df + 1)) + 0.5 * (math.pi * df).log() + spread.log()
        return constant + 0.5 * (df + 1) * (((target - loc) / spread).square() / df).log1p()

    def point(self, output: torch.Tensor) -> torch.Tensor:
        """Mean, (..., 3) to (...)."""
        return output[..., 0]

    def sample(self, output: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Values at normal scores ``z``, exact (scipy, on the CPU)."""
        loc, spread, df = output.unbind(-1)
        score = z.clamp(-MAX_SCORE, MAX_SCORE)
        # By the lower tail, which keeps its digits.
        t = -special.stdtrit(_array(df), special.ndtr(-_array(score.abs())))
        return loc + spread * score.sign() * _like(t, output)

    def scores(self, output: torch.Tensor, target: torch.Tensor, generator: np.random.Generator) -> torch.Tensor:
        """Return normal scores of ``target``."""
        loc, spread, df = output.unbind(-1)
        t = (target - loc) / spread
        return -t.sign() * _like(special.ndtri(special.stdtr(_array(df), -_array(t.abs()))), output)


class NegativeBinomialHead(DistributionHead):
    """Mean m and dispersion a of a count, whose variance is m + a m^2, and the step between scaled counts.

    The mean is in scaled units; the step is 1 / scale of the window, so that ``mean / step`` is the mean of the count.
    """

    counts = True

    def _constrain(self, raw: torch.Tensor, unit: torch.Tensor | None) -> torch.Tensor:
        mean, dispersion = F.softplus(raw[..., 0]) + MIN_SPREAD, F.softplus(raw[..., 1]) + MIN_DISPERSION
        step = torch.ones_like(mean) if unit is None else torch.where(unit > 0, 1 / unit, 1.0).expand_as(mean)
        return torch.stack([mean, dispersion, step.to(mean.dtype)], -1)

    def _nll(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        mean, dispersion, step = output.double().unbind(-1)  # differences of lgamma lose half of the digits
        k, m, r = (target / step).round(), mean / step, 1 / dispersion
        log_choose = torch.lgamma(k + r) - torch.lgamma(r) - torch.lgamma(k + 1)
        return ((k + r) * (m * dispersion).log1p() - k * (m * dispersion).log() - log_choose).to(output.dtype)

    def point(self, output: torch.Tensor) -> torch.Tensor:
        """Mean, (..., 3) to (...)."""
        return output[..., 0]

    def sample(self, output: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Values at normal scores ``z``: multiples of the step (scipy, on the CPU)."""
        r, p = self._shape(output)
        level = special.ndtr(_array(z.clamp(-MAX_SCORE, MAX_SCORE)))
        return _like(_count_at(level, r, p), output) * output[..., 2]

    def scores(self, output: torch.Tensor, target: torch.Tensor, generator: np.random.Generator) -> torch.Tensor:
        """Return normal scores of ``target``, drawn between those of the count below and its own (Smith 1985)."""
        r, p = self._shape(output)
        k = np.round(_array(target / output[..., 2]))
        above = special.betainc(r, k + 1, p)
        below = np.where(k > 0, special.betainc(r, np.maximum(k, 1), p), 0.0)
        return _like(special.ndtri(below + generator.random(k.shape) * (above - below)), output)

    def _shape(self, output: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Return number of successes r and their probability p."""
        mean, dispersion, step = output.double().unbind(-1)
        return _array(1 / dispersion), _array(1 / (1 + dispersion * mean / step))


HEADS: dict[Distribution, type[DistributionHead]] = {
    "normal": NormalHead,
    "student_t": StudentTHead,
    "log_normal": LogNormalHead,
    "negative_binomial": NegativeBinomialHead,
}


def _count_at(level: np.ndarray, r: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return the smallest counts whose negative binomial distribution function reaches ``level``; broadcast."""
    shape = np.broadcast_shapes(level.shape, r.shape, p.shape)
    level, r, p = (np.broadcast_to(x, shape).ravel() for x in (level, r, p))
    probability = p**r
    total, count, left = probability, np.zeros(level.shape), np.arange(level.size)
    for k in range(MAX_COUNTED):
        is_below = total < level
        level, r, p, probability, total, left = (x[is_below] for x in (level, r, p, probability, total, left))
        if not left.size:
            break
        count[left] = k + 1
        probability = probability * ((k + r) / (k + 1) * (1 - p))
        total = total + probability
    far = total < level
    if far.any():
        count[left[far]] = np.ceil(special.nbdtrik(level[far], r[far], p[far]))
    return count.reshape(shape)


def _spread(raw: torch.Tensor) -> torch.Tensor:
    return F.softplus(raw) + MIN_SPREAD


def _log(target: torch.Tensor) -> torch.Tensor:
    """Logarithm; 0 of what is not positive, which is missing."""
    return torch.where(target > 0, target, 1.0).log()


def _array(x: torch.Tensor) -> np.ndarray:
    return x.detach().double().cpu().numpy()


def _like(x: np.ndarray, output: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x).to(output)
