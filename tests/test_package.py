"""The package as a whole: what importing it costs, its public names, what ships, and which file may import which."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tsformer

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tsformer"

# Reading order: a file imports only from files above it.
READING_ORDER = """
    config resolve batch losses metrics intervals ridge experts calibration
    data.frequency data.columns data.axis data.frames data.layout data.covariates data.series data.panel data.future
    data.time_features data.transforms data.windows data.loaders data.datasets
    nn.scaling nn.positions nn.embedding nn.covariates nn.attention nn.dropout nn.encoder nn.decoder
    nn.distributions nn.heads nn.linear_path nn.model nn.decoding nn.sampling
    training.optim training.augmentation training.compiling training.lightning_module training.callbacks
    training.trainer
    evaluation.arrays seasonality blend blend_fit smearing fitted persistence plan fitting evaluation.scoring forecaster
    evaluation.linear evaluation.baselines evaluation.naive2 evaluation.rolling evaluation.backtest
    evaluation.backtest_metrics evaluation.benchmarks
    inspection.plotting
    cli.arguments cli.compose cli.runs cli.split cli.report cli.experiment cli.predict cli.backtest cli.main __main__
""".split()

# The estimator's methods that only forward: imported where they are called.
FORWARDED = {("forecaster", "inspection.plotting")}


def modules() -> dict[str, Path]:
    """Every file that says something, by its name below ``tsformer``."""
    paths = (path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
    return {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in paths}


def imports(path: Path) -> set[str]:
    """Names below ``tsformer`` that a file imports, those inside functions included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return {name.removeprefix("tsformer.") for name in found if name.startswith("tsformer.")}


def test_every_file_has_its_place():
    assert sorted(set(modules()) - set(READING_ORDER)) == []


def test_imports_only_point_up_the_reading_order():
    place = {name: number for number, name in enumerate(READING_ORDER)}
    known = modules()
    wrong = [
        f"{name} imports {other}"
        for name, path in known.items()
        for other in imports(path) & known.keys()
        if place[other] >= place[name] and (name, other) not in FORWARDED
    ]
    assert wrong == []


def test_data_and_network_meet_only_in_batch():
    for name, path in modules().items():
        for room, other in (("data", "nn"), ("nn", "data")):
            if name.startswith(room + "."):
                assert not any(target.startswith(other + ".") for target in imports(path)), name


@pytest.mark.parametrize("name", tsformer.__all__)
def test_public_names_exist(name):
    assert getattr(tsformer, name) is not None
    assert name in dir(tsformer)


def test_unknown_name_is_an_attribute_error():
    assert not hasattr(tsformer, "no_such_name")


def test_import_is_light():
    code = "import sys, tsformer; print(sorted({'torch', 'lightning', 'pandas', 'numpy'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_show_versions(capsys):
    tsformer.show_versions()
    printed = capsys.readouterr().out
    for name in ("python", "tsformer", "torch", "lightning"):
        assert f"{name}: " in printed


def test_every_package_ships():
    with (ROOT / "pyproject.toml").open("rb") as file:
        listed = set(tomllib.load(file)["tool"]["setuptools"]["packages"])
    present = {".".join(path.parent.relative_to(ROOT).parts) for path in PACKAGE.rglob("__init__.py")}
    assert listed == present | {"tsformer.conf", "tsformer.datafiles"}


def test_pins_cover_every_dependency():
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().replace("_", "-")
    pinned = {line.split("==")[0] for line in pins.splitlines() if "==" in line}
    extras = project["optional-dependencies"]
    for requirement in project["dependencies"] + extras["parquet"] + extras["test"]:
        name = requirement.split(">")[0]
        assert name in pinned or name.startswith("tsformer["), f"{name} has no pin in constraints.txt"
