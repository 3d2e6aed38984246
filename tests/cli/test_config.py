"""The configuration files: complete, equal to the estimator's defaults, and each of them usable."""

from __future__ import annotations

import inspect

import pytest
import yaml

from tsformer import TransformerForecaster
from tsformer.cli.arguments import UsageError, config_folder, groups
from tsformer.cli.compose import compose, known_keys
from tsformer.cli.experiment import build
from tsformer.plan import training_config

TOP_LEVEL = [
    *("prediction_length", "context_length", "freq", "seed", "seeds", "output_dir", "run", "refit", "verbose"),
    *("data", "model", "training", "trainer", "backtest"),
]
# Of the constructor, what the command line names otherwise or has no way to write.
RENAMED = {"random_state": "seed", "target_cols": "data.targets", "weight_col": "data.weight"}
PYTHON_ONLY = {"callbacks", "logger", "trainer_kwargs", "id_col", "time_col"}

FILES = [(group, name) for group, names in groups().items() for name in names]


def written_defaults() -> dict:
    return yaml.safe_load((config_folder() / "config.yaml").read_text(encoding="utf-8"))


def test_top_level_keys():
    assert list(written_defaults()) == ["defaults", *TOP_LEVEL]


def test_defaults_are_the_constructors():
    config = written_defaults()
    parameters = inspect.signature(TransformerForecaster).parameters
    for group in ("model", "training", "trainer"):
        for name, value in config[group].items():
            default = parameters[name].default
            assert value == (list(default) if isinstance(default, tuple) else default), name
            assert isinstance(value, bool) == isinstance(default, bool), name
    for name in ("context_length", "freq", "verbose"):
        assert config[name] == parameters[name].default
    assert config["seed"] == parameters["random_state"].default
    assert config["prediction_length"] is None  # the constructor has no default


def test_every_parameter_has_a_key():
    leaves = {key.rpartition(".")[2] for key in known_keys()}
    for name in inspect.signature(TransformerForecaster).parameters:
        assert RENAMED.get(name, name).rpartition(".")[2] in leaves or name in PYTHON_ONLY, name


@pytest.mark.parametrize(("group", "name"), FILES)
def test_every_file_builds_an_estimator(group, name):
    config = compose("fit", [f"{group}={name}"]).config
    if config["prediction_length"] is None:
        config["prediction_length"] = 3
    assert sorted(config) == sorted(TOP_LEVEL)
    forecaster = build(config)
    training_config(forecaster.get_params())
    assert forecaster.prediction_length >= 1


@pytest.mark.parametrize(("group", "name"), FILES)
def test_files_set_known_keys_only(group, name):
    keys = known_keys()
    text = (config_folder() / group / f"{name}.yaml").read_text(encoding="utf-8")
    content = yaml.safe_load(text) or {}
    content.pop("defaults", None)
    flat = content if "@package _global_" in text else {group: content}
    for key, value in flat.items():
        for full in [f"{key}.{leaf}" for leaf in value] if isinstance(value, dict) else [key]:
            assert full in keys, full


@pytest.mark.parametrize("name", groups()["data"])
def test_data_files_name_their_set(name):
    config = compose("fit", [f"data={name}"]).config
    assert config["data"]["name"] == (None if name == "file" else name)


def test_embedded_set():
    config = compose("fit", []).config
    assert (config["prediction_length"], config["context_length"]) == (24, 168)
    assert (config["model"]["patch_length"], config["model"]["channel_mixing"]) == (12, "joint")
    assert config["data"]["targets"] == ["pm25", "dew_point", "temperature", "pressure", "wind_speed"]


def test_a_file_inherits_nothing_of_the_embedded_set(folder):
    config = compose("fit", ["data.path=my.csv"]).config
    defaults = written_defaults()
    del defaults["defaults"]
    defaults["data"]["path"] = str(folder / "my.csv")
    assert config == defaults


def test_classic_is_the_papers_form():
    config = compose("fit", ["model=classic"]).config
    assert config["model"]["patch_length"] == 1  # over the data set's
    assert config["model"]["norm_first"] is False
    assert config["model"]["linear_path"] is False and config["training"]["blend"] is False
    assert config["training"]["training_mode"] == "teacher_forcing"
    assert config["training"]["schedule"] == "noam"


def test_the_command_line_has_the_last_word():
    config = compose("fit", ["model.patch_length=6", "model=classic", "experiment=illness", "training.loss=mse"]).config
    assert config["model"]["patch_length"] == 6
    assert config["training"]["loss"] == "mse"
    assert config["data"]["name"] == "illness"


def test_short_key():
    assert compose("fit", ["save_forecasts=true"]).config["data"]["save_forecasts"] is True


@pytest.mark.parametrize("name", ["5", "2024_01", "1e3", "007", "true", "2024-01-31"])
def test_a_folder_called_as_a_number_is_called_as_typed(folder, name):
    config = compose("fit", [f"output_dir={name}", f"run={name}", f"data.path={name}"]).config
    assert (config["output_dir"], config["run"], config["data"]["path"]) == (name, name, str(folder / name))
    config = compose("fit", ["output_dir=null", "run=Null", "data.path=null"]).config
    assert (config["output_dir"], config["run"], config["data"]["path"]) == (None, None, None)


def test_the_home_of_nobody_is_a_mere_name(folder, run):
    name = "~no-such-user/x"
    assert compose("fit", [f'data.path="{name}"']).config["data"]["path"] == str(folder / name)
    status, _, err = run("predict", f'run="{name}"')
    assert (status, err) == (1, f"tsformer: no such run: {folder / name} is not there\n")


def test_hydras_own_keys_change_nothing():
    plain = compose("fit", ["seed=3"]).config
    assert compose("fit", ["seed=3", "hydra.job.chdir=true", "hydra.run.dir=x", "+hydra.verbose=true"]).config == plain


def test_show_config_can_be_read_back(run):
    status, out, _ = run("fit", "data=sine", "--show-config")
    assert status == 0
    assert yaml.safe_load(out) == compose("fit", ["data=sine"]).config


def test_errors_of_composition_are_ours():
    with pytest.raises(UsageError, match="no key"):
        compose("fit", ["nonsense=1"])
