"""The documentation: its code runs, its commands compose, and what it says about options is what they are."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import runpy
import shlex
import warnings
from pathlib import Path

import pytest
import yaml

from tsformer import TransformerForecaster

ROOT = Path(__file__).parents[1]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
}
CONFIG = yaml.safe_load((ROOT / "conf" / "config.yaml").read_text(encoding="utf-8"))


def blocks(page: str, language: str) -> list[tuple[int, str]]:
    """First line number and text of each code block."""
    found = re.finditer(rf"^```{language}\n(.*?)^```$", PAGES[page], flags=re.MULTILINE | re.DOTALL)
    return [(PAGES[page].count("\n", 0, match.start(1)), match[1]) for match in found]


def rows(page: str) -> list[list[str]]:
    """Cells of every row of every table."""
    lines = [line for line in PAGES[page].splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def in_code(text: str) -> set[str]:
    """What stands between backticks, whole and in its single words."""
    spans = re.findall(r"`([^`\n]+)`", text)
    return set(spans) | {word for span in spans for word in re.findall(r"[\w.]+", span)}


# ------------------------------------------------------------------ code


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_python_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for line, text in blocks(page, "python"):
            if text.startswith(">>>"):
                example = doctest.DocTestParser().get_doctest(text, names, page, page, line)
                assert doctest.DocTestRunner().run(example, clear_globs=False).failed == 0
                names = example.globs
            else:
                exec(compile("\n" * line + text, ROOT / page, "exec"), names)


COMMANDS = [
    line
    for page in PAGES
    for _, text in blocks(page, "bash")
    for line in text.splitlines()
    if line.startswith("python -m tsformer ")
]


@pytest.mark.parametrize("line", sorted(set(COMMANDS)))
def test_commands_compose(line, tmp_path, monkeypatch):
    from tsformer.cli.arguments import parse
    from tsformer.cli.compose import compose

    monkeypatch.chdir(tmp_path)
    arguments = parse(shlex.split(line)[3:])
    assert arguments.command is not None
    assert compose(arguments.command, arguments.overrides).command == arguments.command


def test_readme_opens_with_the_two_commands():
    start = "python3 -m venv .venv && .venv/bin/pip install -c constraints.txt -e"
    first, second = (text.strip() for _, text in blocks("README.md", "bash")[:2])
    assert first == f"{start} . && .venv/bin/python -m tsformer fit"
    assert second == f"{start} '.[test]' && .venv/bin/python -m pytest"


# ------------------------------------------------------------------ options


def test_tables_state_the_defaults_of_the_constructor():
    stated = {
        row[0].strip("`"): row[1].strip("`")
        for page in ("docs/estimator.md", "docs/covariates.md", "docs/model.md", "docs/training.md")
        for row in rows(page)
        if len(row) == 3 and re.fullmatch(r"`\w+`", row[0])
    }
    assert stated.pop("prediction_length") == "required"
    parameters = inspect.signature(TransformerForecaster).parameters
    actual = {name: p.default for name, p in parameters.items() if p.default is not inspect.Parameter.empty}
    assert {name: ast.literal_eval(stated[name]) for name in actual} == actual


def test_every_key_of_the_configuration_is_documented():
    page = in_code(PAGES["docs/command-line.md"])
    everywhere = {word for name, text in PAGES.items() if name.startswith("docs") for word in in_code(text)}
    for key, value in CONFIG.items():
        if key == "defaults":
            continue
        if not isinstance(value, dict):
            assert key in page, key
        for leaf in value if isinstance(value, dict) else ():
            assert f"{key}.{leaf}" in page or (key in ("model", "training") and leaf in everywhere), f"{key}.{leaf}"


def test_the_table_of_keys_states_their_defaults():
    known = {key: value for key, value in CONFIG.items() if not isinstance(value, (dict, list))}
    known |= {f"data.{key}": value for key, value in CONFIG["data"].items()}
    found = set()
    for row in rows("docs/command-line.md"):
        for key in re.findall(r"`([\w.]+)`", row[0]):
            if key in known and len(row) == 3:
                assert yaml.safe_load(row[1]) == known[key], key
                found.add(key)
    assert found == known.keys()


def test_every_choice_of_a_group_is_documented():
    choices = {row[0].strip("`"): in_code(row[1]) for row in rows("docs/command-line.md") if len(row) == 2}
    for path in (ROOT / "conf").glob("*/*.yaml"):
        assert path.stem in choices[path.parent.name], path


def test_every_data_set_is_documented():
    from tsformer.data.datasets import SOURCES

    named = in_code(" ".join(row[0] for row in rows("docs/data.md")))
    assert {"air_quality", "sine", *SOURCES} <= named


def test_scikit_learns_exceptions_are_documented():
    source = ROOT / "tests" / "test_forecaster.py"
    allowed = runpy.run_path(str(source))["SKLEARN_EXCEPTIONS"]
    assert {word for word in in_code(PAGES["docs/estimator.md"]) if re.match(r"check_(?!estimator)", word)} == set(
        allowed
    )
    least = re.search(r'"passed" for r in results\) >= (\d+)', source.read_text(encoding="utf-8"))
    assert least is not None
    for page in ("README.md", "docs/estimator.md"):
        assert re.search(rf"at least {least[1]}\b", PAGES[page], flags=re.IGNORECASE), page


# ------------------------------------------------------------------ the house


def test_the_map_has_every_file_in_reading_order():
    package = ROOT / "tsformer"
    files = {str(path.relative_to(package)) for path in package.rglob("*.py") if path.name != "__init__.py"}
    order = [
        name.replace(".", "/") + ".py"
        for name in runpy.run_path(str(ROOT / "tests" / "test_package.py"))["READING_ORDER"]
    ]
    mapped = [row[0].strip("`") for row in rows("CONTRIBUTING.md") if row[0].endswith(".py`")]
    assert set(mapped) == files
    assert mapped == [name for name in order if name in files]


# ------------------------------------------------------------------ links


def anchors(text: str) -> set[str]:
    """Names that headings can be linked by."""
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", PAGES[page]):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), target
