"""The speed benchmark: its references are right, and its commands run; what they measure is not tested."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import references
    from speed import measure, report

    return references, measure, report


@pytest.fixture
def run(modules, monkeypatch):
    """Call the main of a script with arguments."""

    def call(script: str, *arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", [f"{script}.py", *arguments])
        importlib.import_module(script).main()

    return call


@pytest.mark.parametrize("paths", [1, 3])
def test_the_bare_cached_decoder_is_nn_transformer(modules, paths):
    torch.manual_seed(0)
    model = modules[0].BareTransformer(channels=2, d_model=16, nhead=4, layers=2, dim_feedforward=32).eval()
    context = torch.randn(3, 10, 2)
    forecast = model.decode(context, 8, paths)
    with torch.no_grad():
        expected = model(context.repeat_interleave(paths, 0), forecast)
    torch.testing.assert_close(forecast, expected, atol=1e-5, rtol=1e-5)


def test_drawn_paths_differ(modules):
    torch.manual_seed(0)
    model = modules[0].BareTransformer(channels=2, d_model=16, nhead=4, dim_feedforward=32, draws=True).eval()
    paths = model.decode(torch.randn(2, 10, 2), 5, paths=4)
    assert paths.shape == (8, 5, 2) and len(paths[:, 0].unique(dim=0)) == 8


def test_ratios_are_those_of_the_same_round(modules):
    _, measure, report = modules
    table = measure.Table("a task", "s", "a", {"a": [1.0, 10.0, 2.0], "b": [2.0, 20.0, 4.0], "slow": [5.0]})
    rows = {row["who"]: row for row in table.to_dict()["rows"]}
    assert rows["b"]["ratio"] == {"median": 2.0, "q1": 2.0, "q3": 2.0}
    assert rows["slow"]["ratio"]["median"] == 5.0
    assert "| b | 4 [3, 12] | 2 |" in report._table(table.to_dict())


def test_tasks_take_turns_until_their_budget(modules):
    _, measure, _ = modules
    calls: list[str] = []
    tasks = {name: lambda n=name: float(calls.append(n) or len(calls)) for name in "ab"}
    assert measure.alternate(tasks, 2, warmup=False) == {"a": [1.0, 3.0], "b": [2.0, 4.0]}
    assert calls == ["a", "b", "a", "b"]
    assert measure.exponent([1, 10, 100], [3, 300, 30_000]) == pytest.approx(2)


def test_the_command_measures_data_and_writes_its_page(run, tmp_path, monkeypatch):
    from speed import data, jobs

    def in_child_or_here(job: str, who: str, *size: int):  # Lightning is loaded here already: seconds less
        return in_child(job, who, *size) if who == "numpy" else jobs.data(who, *map(str, size))

    in_child = data.in_child
    monkeypatch.setattr(data, "in_child", in_child_or_here)
    run("run", "data", "--quick", "--no-peers", "--out", str(tmp_path))
    result = json.loads((tmp_path / "data.json").read_text(encoding="utf-8"))
    seconds = {row["who"]: row["median"] for row in result["tables"][0]["rows"]}
    assert set(seconds) == {"numpy by hand", "tsformer, fit"} and min(seconds.values()) > 0
    page = (tmp_path / "speed.md").read_text(encoding="utf-8")
    assert "## Data" in page and "Quick run" in page and result["header"]["processor"] in page


def test_the_gpu_script_runs_on_a_cpu(run, tmp_path, monkeypatch):
    monkeypatch.setattr("tsformer.training.compiling.BACKEND", "eager")  # without a compiler
    run("gpu", "--device", "cpu", "--tiny", "--out", str(tmp_path))
    result = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert [table["unit"] for table in result["tables"]] == ["ms"] * 3
    assert "## GPU" in (tmp_path / "speed.md").read_text(encoding="utf-8")


@pytest.mark.skipif(torch.cuda.is_available(), reason="about machines without a GPU")
def test_the_gpu_script_says_that_there_is_none(run, tmp_path, capsys):
    run("gpu", "--out", str(tmp_path))
    assert "no GPU" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
