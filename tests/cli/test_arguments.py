"""What the command line says: help, version, and answers to what it cannot do."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

import tsformer
from tsformer.cli.arguments import COMMANDS, groups


def test_help_names_commands_and_choices(run):
    status, out, err = run("--help")
    assert status == 0 and err == ""
    for word in [*COMMANDS, *(name for names in groups().values() for name in names)]:
        assert word in out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(run, command):
    status, out, _ = run(command, "--help")
    assert status == 0
    assert f"usage: python -m tsformer {command}" in out
    assert f"  python -m tsformer {command}" in out  # an example


def test_a_reader_that_has_gone_is_no_error():
    command = [sys.executable, "-m", "tsformer", "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_version(run):
    assert run("--version") == (0, f"tsformer {tsformer.__version__}\n", "")


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_come_at_once(option):
    code = (
        f"import sys; from tsformer.__main__ import main; main([{option!r}]);"
        "print(sorted({'torch', 'lightning', 'pandas', 'numpy', 'matplotlib', 'hydra'} & set(sys.modules)))"
    )
    began = time.perf_counter()
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"
    assert time.perf_counter() - began < 3  # a tenth of a second on an idle machine


def test_runs_as_a_module():
    result = subprocess.run([sys.executable, "-m", "tsformer", "--version"], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("tsformer ")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], ["which command", "--help"]),
        (["fti"], ["fti", "Did you mean fit?"]),
        (["model.d_model=8"], ["command comes first"]),
        (["fit", "--multirun"], ["no option --multirun"]),
        (["fit", "--show-confg"], ["Did you mean --show-config?"]),
        (["fit", "modl.d_model=8"], ["no key modl.d_model", "Did you mean model.d_model?"]),
        (["fit", "model.d_modl=8"], ["Did you mean model.d_model?"]),
        (["fit", "patch_length=8"], ["Did you mean model.patch_length?"]),
        (["fit", "season_length=8"], ["data.season_length", "model.season_length"]),
        (["fit", "random_state=1"], ["called seed"]),
        (["fit", "data=air_qualty"], ["no data=air_qualty", "Did you mean air_quality?"]),
        (["fit", "model=clasic"], ["Did you mean classic?"]),
        (["evaluate", "experiment=ett1"], ["Did you mean etth1?"]),
        (["fit", "+data.extra=1"], ["data.extra=VALUE"]),
        (["fit", "~model.d_model=1"], ["model.d_model=VALUE"]),
        (["fit", "d_model"], ["no KEY=VALUE"]),
        (["fit", "data=sine", "data.path=x.csv"], ["data=sine", "give one of them"]),
        (["evaluate", "experiment=etth1", "data.path=x.csv"], ["experiment brings its own data"]),
        (["evaluate", "seeds=0,1"], ["seeds=[0,1]"]),
        (["predict", "model.d_model=8"], ["predict does not use model.d_model"]),
    ],
)
def test_mistakes_are_answered_in_one_line(run, folder, argv, words):
    status, out, err = run(*argv)
    assert status == 2 and out == ""
    assert err.count("\n") == 1 and "Traceback" not in err
    for word in words:
        assert word in err
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "value",
    ["~/my.csv", "näive.csv", "epoch=3-step=40.csv", "a,b.csv", "a(b).csv", "it's.csv", "日本.csv", "a, b=c.csv"],
)
def test_what_hydra_cannot_read_is_answered_with_what_to_type(run, folder, value):
    status, _, err = run("fit", f"data.path={value}")
    assert status == 2 and "Traceback" not in err
    typed = shlex.split(err.split("type ", 1)[1])[0]  # as a shell would pass it on
    assert OverridesParser.create().parse_override(typed).value() == value
    status, _, err = run("fit", typed, "prediction_length=3")
    assert status == 1 and "no such file" in err  # now it is read: there is only no such file


def test_a_list_of_such_values_is_quoted_too(run, folder):
    _, _, err = run("fit", "data.targets=[größe,höhe]")
    typed = shlex.split(err.split("type ", 1)[1])[0]
    assert OverridesParser.create().parse_override(typed).value() == ["größe", "höhe"]


@pytest.mark.parametrize(
    "name", ["epoch=3-step=40.csv", "my data.csv", "2024-01-31.csv", "data/a,b.csv", "'my data.csv'"]
)
def test_a_file_in_place_of_a_data_set_is_answered_with_data_path(run, folder, name):
    status, _, err = run("fit", f"data={name}")
    assert status == 2
    typed = shlex.split(err.split("type ", 1)[1])[0]
    key, _, value = typed.partition("=")
    assert (key, OverridesParser.create().parse_override(typed).value()) == ("data.path", name.strip("'"))
