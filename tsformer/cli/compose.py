"""From overrides to one configuration: plain nested dicts with every key in place."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from tsformer.cli.arguments import UsageError, absolute, config_folder, groups, nearest

# Keys whose values are names of files and folders.
PATHS = ("output_dir", "run", "data.path", "data.future", "data.root")
# Keys with a short form, and names that people try.
SHORT = {"save_forecasts": "data.save_forecasts"}
ALSO_KNOWN_AS = {
    "random_state": "seed",
    "horizon": "prediction_length",
    "h": "prediction_length",
    "look_back": "context_length",
    "target_cols": "data.targets",
    "weight_col": "data.weight",
    "time_col": "data.time",
    "id_col": "data.id",
    "lr": "training.learning_rate",
    "epochs": "training.max_epochs",
}


@dataclass(frozen=True)
class Settings:
    """What to run.

    Parameters
    ----------
    command
        Its name.
    config
        Every key of ``conf/config.yaml``, nested as there.
    given
        The keys (``model.d_model``) and groups (``data``) that the command line names.
    """

    command: str
    config: dict[str, Any]
    given: frozenset[str]


def compose(command: str, overrides: Sequence[str]) -> Settings:
    """Return the configuration that overrides make of the defaults.

    Parameters
    ----------
    command
        Its name.
    overrides
        ``KEY=VALUE`` or ``GROUP=NAME``. Those of Hydra itself (``hydra.run.dir=...``) change nothing.

    Raises
    ------
    UsageError
        For an override that cannot be read, or a key or choice that does not exist; it names the nearest one, or the
        quoted form to type.
    """
    ours = [_written_out(text) for text in overrides if not re.match(r"\+*hydra[./]", text)]
    choices, keys = groups(), known_keys()
    for text in ours:
        _check(text, choices, keys)
    given = frozenset(text.partition("=")[0] for text in ours)
    if "data.path" in given and "experiment" in given:
        raise UsageError("an experiment brings its own data: leave out data.path, or experiment")
    if "data.path" in given and "data" not in given:
        ours.insert(0, "data=file")  # nothing of the default data set is inherited
    try:
        with hydra.initialize_config_dir(str(config_folder().resolve()), version_base="1.3"):
            composed = hydra.compose("config", ours)
        config = OmegaConf.to_container(composed, resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise UsageError(f"the configuration cannot be composed: {error}") from None
    assert isinstance(config, dict)
    data = config["data"]
    if data["path"] is not None and data["name"] is not None:
        raise UsageError(f"data={data['name']} and data.path={data['path']}: give one of them")
    for key in ("path", "root", "future"):  # as the user meant them, wherever the configuration is read again
        if data[key] is not None:
            data[key] = str(absolute(str(data[key])))
    return Settings(command, {str(key): value for key, value in config.items()}, given)


def to_yaml(config: dict[str, Any]) -> str:
    """Return a configuration as YAML."""
    return OmegaConf.to_yaml(OmegaConf.create(config))


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the configuration in a file that `to_yaml` wrote."""
    config = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    if not isinstance(config, dict):
        raise ValueError(f"{path} is no configuration of a run")
    return {str(key): value for key, value in config.items()}


@functools.cache
def known_keys() -> tuple[str, ...]:
    """Return every key there is, as ``GROUP.KEY``."""
    defaults = read_yaml(config_folder() / "config.yaml")
    del defaults["defaults"]
    return tuple(_flat(defaults))


def _flat(config: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in config.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key


def _written_out(text: str) -> str:
    """Return an override with its short key written out, and a file or folder called as a number (2024_01) as text."""
    key, equals, value = text.partition("=")
    if key in PATHS and re.fullmatch(r"(?!null$)[\w.+-]+", value, re.ASCII | re.IGNORECASE):
        value = f'"{value}"'
    return f"{SHORT.get(key, key)}{equals}{value}"


def _check(text: str, choices: dict[str, list[str]], keys: Sequence[str]) -> None:
    """Check one override: its key or group, then its value."""
    key, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"{text!r} is no KEY=VALUE")
    if key[:1] in "+~":
        raise UsageError(f"{text}: keys are neither added nor taken away, write {key.lstrip('+~')}=VALUE")
    if key in choices:
        name = value.strip("\"'")
        if name not in choices[key]:
            if key == "data" and re.search(r"\.(csv|parquet)\b|/", name):
                raise UsageError(f"data= names a data set; for a file type {_quoted('data.path', name)}")
            raise UsageError(f"no {key}={name}.{nearest(name, choices[key])} There are {', '.join(choices[key])}")
        return
    if key not in keys:
        raise UsageError(f"no key {key}.{_nearest_key(key, keys)} All keys: --show-config")
    try:
        is_list_of_runs = OverridesParser.create().parse_override(text).is_sweep_override()
    except HydraException:
        raise UsageError(
            f"{text} cannot be read: a value with such characters is quoted, type {_quoted(key, value)}"
        ) from None
    if is_list_of_runs:
        hint = f", or for a list {key}=[{value}]" if key in ("seeds", "data.targets", "training.quantiles") else ""
        raise UsageError(f"{text} cannot be read: a value with a comma is quoted, type {_quoted(key, value)}{hint}")


def _nearest_key(key: str, keys: Sequence[str]) -> str:
    """Return a hint at the right key: by another name of it, its last part, or its spelling."""
    if key in ALSO_KNOWN_AS:
        return f" It is called {ALSO_KNOWN_AS[key]}."
    leaf = key.rpartition(".")[2]
    same = [known for known in keys if known.rpartition(".")[2] == leaf]
    if same:
        return f" Did you mean {' or '.join(same)}?"
    return nearest(key, keys) or nearest(leaf, {known.rpartition(".")[2]: known for known in keys})


def _quoted(key: str, value: str) -> str:
    """Return the override as a shell line in which Hydra reads the value as one text, or a list of texts."""

    def text(word: str) -> str:
        return '"' + word.strip().strip("\"'").replace('"', '\\"') + '"'

    if value.startswith("[") and value.endswith("]"):
        return f"{key}={shlex.quote('[' + ', '.join(map(text, value[1:-1].split(','))) + ']')}"
    return f"{key}={shlex.quote(text(value))}"
