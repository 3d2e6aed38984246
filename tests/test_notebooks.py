"""Notebooks: what is stored is whole, and it runs again."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
# What each leaves behind.
FILES = {"01_quickstart": ["quickstart.safetensors"]}


def read(path: Path) -> nbformat.NotebookNode:
    """A notebook, held to the format."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def outputs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """Outputs of all cells."""
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def check(notebook: nbformat.NotebookNode) -> None:
    """Every code cell ran, in order, and shows results: nothing on stderr, no error, no path of a machine."""
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    shown = outputs(notebook)
    assert {output.output_type for output in shown} <= {"display_data", "execute_result"}
    assert any("image/png" in output.data for output in shown)
    text = "\n".join(str(output.data.get("text/plain", "")) for output in shown)
    assert not any(word in text for word in ("Traceback", "Warning", "/home/", "/root/", "/tmp/", "/Users/"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs(path):
    notebook = read(path)
    assert 0 < len(notebook.cells) <= 10
    check(notebook)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_again(path, tmp_path):
    notebook = read(path)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    check(notebook)
    assert [path.name for path in tmp_path.iterdir()] == FILES.get(path.stem, [])


def test_there_are_notebooks():
    assert NOTEBOOKS
