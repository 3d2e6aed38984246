"""The machinery of the benchmarks, and one row of it from end to end."""

from __future__ import annotations

import json
import os

import ablation
import accuracy
import experiments
import numpy as np
import pytest
import search
import torch
from crps import LEVELS, crps
from rows import Row, compute, finished, number, table, write_between_marks

from tsformer import ForecastTransformer, ModelConfig
from tsformer.batch import Batch
from tsformer.nn.decoding import rollout


def work(value: int) -> dict:
    if value < 0:
        raise ValueError("below zero")
    return {"double": 2 * value}


def row(value: int, **setting) -> Row:
    return Row(f"group/row-{value}", work, {"value": value}, lambda: setting)


def test_finished_rows_are_not_computed_again(tmp_path, capsys):
    rows = [row(1, width=8), row(2)]
    assert finished(rows, tmp_path) == {}
    assert compute(rows, tmp_path, jobs=1) == 0
    assert finished(rows, tmp_path) == {"group/row-1": {"double": 2}, "group/row-2": {"double": 4}}
    compute(rows, tmp_path, jobs=1)
    assert "2 finished, 0 to compute" in capsys.readouterr().out
    compute(rows, tmp_path, jobs=1, again=True)
    assert "0 finished, 2 to compute" in capsys.readouterr().out


def test_a_row_of_another_setting_is_not_finished(tmp_path):
    compute([row(1, width=8)], tmp_path, jobs=1)
    assert finished([row(1, width=16)], tmp_path) == {}
    assert finished([row(1)], tmp_path) == {}  # an option that is gone
    assert finished([row(1, width=8, new=None)], tmp_path)  # one that came later
    assert finished([row(1, width=8, new=0.5)], tmp_path) == {}  # and is on


def test_one_failure_does_not_end_the_others(tmp_path, capsys):
    assert compute([row(-1), row(1)], tmp_path, jobs=1) == 1
    assert "below zero" in capsys.readouterr().out
    assert list(finished([row(-1), row(1)], tmp_path)) == ["group/row-1"]


def test_only_the_marked_part_of_a_page_changes(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("Above\n\n<!-- a -->\nold\n<!-- end of a -->\n\nBelow\n")
    write_between_marks(page, "a", "new")
    write_between_marks(page, "b", "more")
    assert page.read_text() == (
        "Above\n\n<!-- a -->\n\nnew\n\n<!-- end of a -->\n\nBelow\n<!-- b -->\n\nmore\n\n<!-- end of b -->\n"
    )


def test_numbers_and_tables():
    assert number([]) == "–"
    assert number([0.5]) == "0.500"
    assert number([1.0, 3.0]) == "2.000 ± 1.414"
    assert table([["", "a"], ["x", "1"]]) == "|  | a |\n| --- | --- |\n| x | 1 |"


def test_one_row_from_end_to_end(tmp_path, capsys):
    argv = ["--only", "families/walk-7", "--seeds", "0", "--max-steps", "2", "--jobs", "1"]
    argv += ["--results", str(tmp_path / "rows"), "--page", str(tmp_path / "page.md")]
    assert accuracy.main(argv) == 0
    content = json.loads((tmp_path / "rows" / "families" / "walk-7" / "seed-0.json").read_text())
    score = content["result"]["mae"]
    controls = json.loads((tmp_path / "rows" / "families" / "walk-7" / "controls.json").read_text())["result"]
    ratio = score / min(control["mae"] for control in controls.values())
    page = (tmp_path / "page.md").read_text()
    line = next(line for line in page.splitlines() if line.startswith("| walk | 7 |"))
    assert f"| {score:.3f} |" in line and f"| {ratio:.3f} | 1 of 1 |" in line
    assert f"1 of 16 ratios: geometric mean **{ratio:.3f}**" in page
    assert "| walk | 28 | – |" in page and "| ETTh1 | MSE / MAE | – | 0 of 1 |" in page  # missing, and shown so
    capsys.readouterr()
    assert accuracy.main([*argv, "--list"]) == 0
    assert capsys.readouterr().out.count("finished") == 2


def test_ablation_changes_one_thing_a_line(tmp_path, capsys):
    assert ablation.main(["--list", "--results", str(tmp_path)]) == 0
    # Of both data sets one line says of the linear path what the recipe says: the same rows.
    assert len(capsys.readouterr().out.splitlines()) == 2 * 3 * (len(ablation.VARIANTS) - 1)
    scores = {str(h): {"mse": 0.5, "mae": 0.25} for h in (96, 192)}
    rows = ablation.all_rows(ablation.arguments("", tmp_path, tmp_path, ["--seeds", "0"]))
    text = ablation.render({rows[0].name: {"scores": scores, "train_seconds": 9.0}, rows[1].name: None})
    assert "| 0.500 / 0.250 | – | 1, 0 | 9 |" in text.splitlines()[6] and text.count("0.500") == 2
    assert "| linear path | without | 0.500 / 0.250 | – | 1, 0 | 9 |" in text
    assert "| training | teacher forcing | – | – | 0, 0 | – |" in text


def test_direct_decoding_is_the_same_layers_without_what_was_decoded():
    torch.manual_seed(0)
    config = ModelConfig(context_length=24, patch_length=6, season_length=6, max_decoder_length=18, linear_path=False)
    direct, autoregressive = experiments.DirectTransformer(config).eval(), ForecastTransformer(config).eval()
    direct.load_state_dict(autoregressive.state_dict())
    values, seen = torch.randn(2, 24, 1, dtype=torch.float64), torch.ones(2, 24, 1, dtype=torch.bool)
    target, known = torch.randn(2, 18, 1, dtype=torch.float64), torch.ones(2, 18, 1, dtype=torch.bool)
    batch = Batch(values, seen, target, known, values.mean(1), values.std(1))
    outputs = direct(batch)  # (R, 3, 6)
    assert torch.equal(outputs, direct(batch._replace(target=target + 1)))
    torch.testing.assert_close(rollout(direct, direct.encode(batch, 3), 3), outputs)
    torch.testing.assert_close(outputs[:, :1], autoregressive(batch)[:, :1])
    assert not torch.allclose(outputs[:, 1:], autoregressive(batch)[:, 1:])


def test_a_search_marks_the_best_of_each_data_set(tmp_path):
    rows = search.all_rows(search.arguments("", tmp_path, tmp_path, ["--seeds", "3", "4"]))
    assert len(rows) == 2 * sum(map(len, search.CANDIDATES.values()))

    def result(error, epoch=2):
        scores = {"96": {"mse": 1.0, "mae": error}, "192": {"mse": 2.0, "mae": error + 0.1}}
        return {"validation": scores, "best_epoch": epoch, "epochs": 5, "seconds": 9.0}

    first, second, third, fourth = (rows[2 * i].name for i in range(4))
    again = {rows[2 * i + 1].name: result(error, epoch) for i, error, epoch in ((0, 0.7, 1), (1, 0.6, 3), (3, 0.1, 0))}
    one_seed = {first: result(0.5), second: result(0.5), third: result(0.3), fourth: result(0.3, 4)}
    text = search.render(one_seed | again)
    assert "| ETTh1 | linear_path=false, context_length=512 | 1.5000 / 0.6500 | 2 | 2 of 5, 1 of 5 | 9 |" in text
    assert "| **1.5000 / 0.6000** | 2 | 2 of 5, 3 of 5 |" in text  # the others: one seed, or a start
    assert text.count("**") == 2
    assert "| ILI | linear_path=true | – | – | – | – |" in text


def test_crps_by_hand():
    truth = np.array([[[2.0]], [[-4.0]]])
    quantiles = np.zeros((2, 1, 1, len(LEVELS)))
    # An error of +2 weighs the level, one of -4 the rest: both 2 * 0.5 * |y| / |y| on average.
    assert crps(truth, quantiles) == pytest.approx(1.0)
    assert crps(truth, truth[..., None] + quantiles) == 0.0


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("TSFORMER_DATA"), reason="TSFORMER_DATA names no folder of outside data sets")
@pytest.mark.parametrize(
    ("name", "model", "record"),
    [
        ("etth1", "RidgeForecaster", [0.259, 0.289, 0.309, 0.312]),
        ("etth2", "RidgeForecaster", [0.143, 0.162, 0.180, 0.190]),
        ("exchange", "RepeatLast", [0.019, 0.026, 0.037, 0.064]),
    ],
)
def test_crps_records(name, model, record):
    scores = experiments.quantile_baselines(name)[model]
    np.testing.assert_allclose(list(scores.values()), record, rtol=0, atol=0.0011)
