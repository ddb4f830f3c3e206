"""The wheel alone: built, installed beside its dependencies, and a pipeline run with Spark's workers from there."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pyspark
import pytest

ROOT = Path(__file__).parent.parent

SCRIPT = """
CREATE TABLE orders (customer INT, amount DECIMAL(10,2)) USING csv OPTIONS (path '{data}', header true);
CREATE MATERIALIZED VIEW spending AS
  SELECT customer, COUNT(*) AS n, SUM(amount) AS amount FROM orders GROUP BY customer;
"""


def run(*command: str | Path, environment: dict[str, str] | None = None) -> str:
    """The output of a command that succeeds, started where no source of the project is."""
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/", timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def sources() -> list[str]:
    """What a clean checkout has of the package: files that git knows, or would."""
    listed = ("git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard")
    found = run(*listed, "src", "pyproject.toml", "README.md", "LICENSE").splitlines()
    return [name for name in found if (ROOT / name).exists()]


@pytest.mark.slow
def test_a_pipeline_from_the_wheel(tmp_path: Path) -> None:
    copy = tmp_path / "source"  # setuptools writes beside pyproject.toml
    for name in sources():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-m", "pip", "wheel", copy, "--no-deps", "--no-build-isolation", "-q", "-w", tmp_path)
    (wheel,) = tmp_path.glob("tidemill-*.whl")
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    python = environment / "bin" / "python"
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
        archive.extractall(packages)
    assert {name.removeprefix("src/") for name in sources() if name.startswith("src/")} <= packed
    assert not [name for name in packed if name.startswith(("tests/", "benchmarks/"))]
    assert pyspark.__file__ is not None
    beside = Path(pyspark.__file__).parents[1]  # an editable install is a .pth there, which is not read from here
    (packages / "dependencies.pth").write_text(str(beside))

    data = tmp_path / "data"
    data.mkdir()
    (data / "1.csv").write_text("customer,amount\n1,2.50\n2,1.00\n1,0.25\n")
    (tmp_path / "pipeline.sql").write_text(SCRIPT.format(data=data))
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYSPARK_PYTHON", "SPARK_HOME")}
    where = run(python, "-c", "import tidemill; print(tidemill.__file__)", environment=clean).strip()
    assert Path(where).is_relative_to(environment)
    command = (python, "-m", "tidemill")
    run(*command, "run", tmp_path / "pipeline.sql", "--root", tmp_path / "root", "--once", environment=clean)
    query = "SELECT customer, n, amount FROM spending ORDER BY customer"
    told = run(*command, "query", "--root", tmp_path / "root", query, "--format", "csv", environment=clean)
    assert told.replace('"', "").split() == ["customer,n,amount", "1,2,2.75", "2,1,1.00"]
