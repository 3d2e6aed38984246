"""Speed of tsformer beside its peers, one thread, in alternation: results/speed/*.json and docs/speed.md.

    python benchmarks/run.py                       # everything: about half an hour on an idle machine
    python benchmarks/run.py decoding startup      # some sections
    python benchmarks/run.py data --quick          # small and few: for a look, not for a quote

The first call makes an environment for the peers in benchmarks/.venv (gigabytes are not needed, minutes are).
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # before torch and numpy are loaded
    os.environ[_name] = "1"
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import argparse  # noqa: E402
import hashlib  # noqa: E402
import importlib  # noqa: E402
import json  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import venv  # noqa: E402
from pathlib import Path  # noqa: E402

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
VENV = HERE / ".venv"
REQUIREMENTS = HERE / "requirements.txt"
INSTALLED = VENV / "installed.json"
SECTIONS = ("startup", "data", "memory", "decoding", "backtest", "training", "scaling")


def main() -> None:
    """Measure the sections asked for, here or in the environment of the peers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"{', '.join(SECTIONS)} or all")
    parser.add_argument("--quick", action="store_true", help="few rounds of small sizes")
    parser.add_argument("--no-peers", action="store_true", help="us and the bare references, in this interpreter")
    parser.add_argument(
        "--page", action="store_true", help="write the page from the results there are, measure nothing"
    )
    parser.add_argument("--out", type=Path, help="folder for the results and speed.md, in place of the project's own")
    arguments = parser.parse_args()
    sections: tuple[str, ...] = (
        SECTIONS if set(arguments.sections) <= {"all"} else tuple(dict.fromkeys(arguments.sections))
    )
    unknown = set(sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}: choose from {', '.join(SECTIONS)}")
    if arguments.page:
        sections = ()
    missing: dict[str, str] = {}
    if sections and not arguments.no_peers:
        missing = prepare()
        python = VENV / "bin" / "python"
        if Path(sys.prefix) != VENV:
            os.execv(python, [str(python), *sys.argv])

    sys.path.insert(1, str(ROOT))
    import torch
    from speed import measure, report

    torch.set_num_threads(1)
    folder = arguments.out or HERE / "results" / "speed"
    page = arguments.out / "speed.md" if arguments.out else ROOT / "docs" / "speed.md"
    folder.mkdir(parents=True, exist_ok=True)
    names = [] if arguments.no_peers else measure.installed()
    for name, why in missing.items():
        print(f"without {name}, which could not be installed: {why}")
    for section in sections:
        module = importlib.import_module(f"speed.{section}")
        result = module.measure(arguments.quick, names)
        result |= {"header": measure.header(), "quick": arguments.quick, "missing": missing}
        text = json.dumps(result, indent=1, ensure_ascii=False)
        (folder / f"{section}.json").write_text(text + "\n", encoding="utf-8")
        if "figure" in result:
            module.draw(result, page.parent / result["figure"])
        print(*map(report.lines, result["tables"]), sep="\n", flush=True)
        for what, value in result.get("facts", {}).items():
            print(f"{what}: {value}", flush=True)
    page.write_text(report.page(report.read(folder)), encoding="utf-8")
    print(f"{page} written")


def prepare() -> dict[str, str]:
    """Make the environment unless it is there, and return the packages that it lacks, and why."""
    mark = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if INSTALLED.exists():
        known = json.loads(INSTALLED.read_text(encoding="utf-8"))
        if known["requirements"] == mark:
            return known["missing"]
    print(f"making {VENV} ...", flush=True)
    venv.create(VENV, with_pip=True)
    missing: dict[str, str] = {}
    if pip("-r", str(REQUIREMENTS), "-e", str(ROOT)):  # all together, or else each on top of those before it
        lines = [line for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines() if line[:1] not in ("", "#")]
        if why := pip("-e", str(ROOT), *(line for line in lines if line.startswith(("torch", "numpy", "pandas")))):
            sys.exit(f"tsformer cannot be installed in {VENV}: {why}")
        missing = {line: why for line in lines if (why := pip(line))}
    INSTALLED.write_text(json.dumps({"requirements": mark, "missing": missing}), encoding="utf-8")
    return missing


def pip(*what: str) -> str:
    """Install, and return the last line of the complaint, "" if there is none."""
    command = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--quiet", *what]
    done = subprocess.run(command, capture_output=True, text=True)
    complaints = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [f"pip: {done.returncode}"]
    return "" if done.returncode == 0 else complaints[-1]


if __name__ == "__main__":
    main()
