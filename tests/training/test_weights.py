"""Weights of rows: what they do to the training, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from tsformer import TransformerForecaster
from tsformer.data.panel import to_panel
from tsformer.losses import masked_mean

WRONG = [40, 43, 47, 51]  # rows that are targets of the only training window, or of the only validation window


def frame(n=56, **columns) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    parts = [
        pd.DataFrame({"unique_id": name, "ds": np.arange(n), "y": level + rng.normal(size=n), "w": 1.0})
        for name, level in (("a", 5.0), ("b", -3.0))
    ]
    return pd.concat(parts, ignore_index=True).assign(**columns)


def fit(data, **changes) -> TransformerForecaster:
    # 48 training rows, one window each: 40 of context, 8 of target.
    chosen = dict(context_length=40, patch_length=8, d_model=16, nhead=2, dim_feedforward=32, validation_size=8)
    return TransformerForecaster(8, max_steps=8, verbose=False, **(chosen | changes)).fit(data)


def weights(model) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.model_.parameters()])


def test_a_weight_of_0_is_a_missing_target():
    # Without validation rows, which would have the wrong values in their context.
    data = frame(48)
    wrong = data["ds"].isin(WRONG)
    missing = fit(data.assign(y=data["y"].mask(wrong)), validation_size=0, patience=None)
    spoilt = fit(
        data.assign(y=data["y"].mask(wrong, 1e4), w=1.0 - wrong), weight_col="w", validation_size=0, patience=None
    )
    assert torch.equal(weights(missing), weights(spoilt))
    data = frame()
    missing = fit(data.assign(y=data["y"].mask(data["ds"].isin(WRONG))))
    assert missing.history_["val_loss"].tolist() != fit(data).history_["val_loss"].tolist()


def test_equal_weights_change_nothing_and_others_do():
    plain, equal = fit(frame()), fit(frame(w=3.0), weight_col="w")
    torch.testing.assert_close(weights(plain), weights(equal))
    other = fit(frame(w=np.arange(112) % 5), weight_col="w")
    assert not torch.allclose(weights(plain), weights(other), atol=1e-4)


def test_weighted_mean():
    errors, mask = torch.tensor([1.0, 2.0, torch.inf, 8.0]), torch.tensor([True, True, False, True])
    assert masked_mean(errors, mask, torch.tensor([0.5, 0.25, 1.0, 0.25])) == 3.0
    assert masked_mean(torch.tensor([torch.inf, 2.0]), mask[:2], torch.tensor([0.0, 0.1])) == 2.0
    assert masked_mean(errors, mask, torch.zeros(4)) == 0.0


def test_weights_go_where_their_rows_go():
    rows = pd.DataFrame({"unique_id": list("baaba"), "ds": [4, 1, 5, 3, 2], "y": 1.0, "w": [8, 1, 5, 7, 2]})
    with pytest.warns(UserWarning, match="2 stamps are missing"):
        panel = to_panel(rows, weight_col="w", freq=1)
    assert panel.weight.tolist() == [1, 2, 0, 0, 5, 7, 8]
    assert panel.tail(1).weight.tolist() == [5, 8]


@pytest.mark.filterwarnings("ignore:.*stamps are missing")
def test_the_column_is_no_target_and_only_for_training():
    wide = pd.DataFrame({"load": np.sin(np.arange(56.0)), "w": 1.0})
    model = fit(wide, weight_col="w")
    assert model.targets_ == ("load",)
    pd.testing.assert_frame_equal(model.predict(wide[["load"]]), model.predict())


def test_what_is_refused():
    for wrong, message in [
        (
            frame().assign(w=[1.0] * 60 + [-2.0] + [1.0] * 51),
            r"1 are not, the first -2: column 'w', id 'b', 4\. Give 0",
        ),
        (frame().assign(w=[1.0] * 60 + [np.nan] * 52), r"52 are not, the first nan: column 'w', id 'b', 4\."),
        (frame(w=np.inf), "the first inf: column 'w', id 'a', 0"),
        (frame(w=0.0), "weight_col='w' is 0 in every row"),
        (frame(w="heavy"), "weight 'w' must hold numbers"),
        (frame().drop(columns="w"), "no weight column 'w'"),
        (frame().assign(w=lambda d: (d["ds"] >= 48).astype(float)), "every row for training has weight 0"),
        (frame().assign(w=lambda d: (d["ds"] < 48).astype(float)), "every row for validation has weight 0"),
        (np.arange(50.0), "'w' .weight.: columns of a frame, and X is of type ndarray"),
    ]:
        with pytest.raises(ValueError, match=message):
            fit(wrong, weight_col="w")
    with pytest.raises(ValueError, match="weight 'y' is a target: name another column"):
        fit(frame(), weight_col="y")
