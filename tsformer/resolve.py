"""Lengths that the user left open, from frequency, horizon, the length of the data and the seasons in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tsformer.config import check_integer

# Of the look-back in patches: two weeks of daily patches for hourly data, about a quarter of a year for daily data; and
# where there is no season.
CONTEXT_PATCHES, CONTEXT_PATCHES_WITHOUT_SEASON = 14, 24
# A longer season is cut into patches of at most this many steps, equal ones where that leaves at least so many.
MAX_PATCH, MIN_PATCH = 48, 12


class Lengths(NamedTuple):
    """All in steps."""

    context_length: int
    patch_length: int
    season_length: int
    rollout_length: int


def resolve_lengths(
    *,
    prediction_length: int,
    context_length: int | None,
    patch_length: int | None,
    season_length: int | None,
    rollout_length: int | None,
    usual_season: int,
    n_rows: int,
    seasons: Sequence[int] = (),
) -> Lengths:
    """Return the lengths in use; what is given is kept.

    Parameters
    ----------
    usual_season
        Season of the frequency (24 for hours, 7 for days, 12 for months ...; 1: none).
    n_rows
        Median number of rows of a series.
    seasons
        Seasons found in the data, steps, the strongest first.

    Notes
    -----
    1. ``season_length``: the usual one of the frequency; where it has none, the strongest found in the data.
    2. ``patch_length``: the season; of one longer than 48 steps the largest equal part up to 48, where that has 12
       steps at least, else one that does not divide it; without a season a quarter of the horizon, at most 24. Never
       longer than the context.
    3. ``context_length``: 14 patches (24 without a season), at least twice the horizon and the longest season found in
       the data, but at most a third of the rows; a whole number of patches, one at least.
    4. ``rollout_length``: the horizon, but at most 8 patches or 96 steps, whichever is more.
    """
    given = {
        "context_length": context_length,
        "patch_length": patch_length,
        "season_length": season_length,
        "rollout_length": rollout_length,
    }
    for name, value in given.items():
        if value is not None:
            check_integer(name, value, minimum=1)
    season = season_length or usual_season
    if season == 1 and seasons and season_length is None:
        season = seasons[0]
    patch = patch_length or _patch(season, prediction_length)
    if patch_length is None and context_length is not None:
        patch = min(patch, context_length)
    context = context_length
    if context is None:
        longest = -(-max(seasons, default=0) // patch) * patch
        n_patches = CONTEXT_PATCHES if season > 1 else CONTEXT_PATCHES_WITHOUT_SEASON
        wanted = max(n_patches * patch, 2 * prediction_length, longest)
        context = max(1, min(wanted, n_rows // 3) // patch) * patch
    rollout = rollout_length or min(prediction_length, max(8 * patch, 96))
    return Lengths(context, patch, season, rollout)


def _patch(season: int, prediction_length: int) -> int:
    if season <= 1:
        return min(24, -(-prediction_length // 4))
    equal = max(n for n in range(1, min(season, MAX_PATCH) + 1) if season % n == 0)
    n_parts = -(-season // MAX_PATCH)
    return equal if equal >= min(season, MIN_PATCH) else -(-season // n_parts)
