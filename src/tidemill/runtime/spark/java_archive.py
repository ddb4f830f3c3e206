"""An archive of Java classes that makes Spark start in less time.

Spark loads, checks and links about ten thousand classes from its jars before the first job has run. Java can keep
them in a file as they are in memory (class data sharing): a session then takes half the processor time to start. The
archive is 160 MB below ``XDG_CACHE_HOME``. Sessions use it when it is there; ``make prepare``, or
``python -m tidemill.runtime.spark.make_java_archive``, makes it. Java itself refuses an archive of other jars or of
another Java, and goes on without it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_RECORDED = 2
"""A version of the archive: it grows whenever other classes are recorded, or the class path is built otherwise."""
_ML = "spark-mllib_"
QUIET = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


@cache
def spark_home() -> Path:
    """The folder of PySpark, without links: Java takes an archive only with the very paths that it was made with."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).resolve().parent


def java_program() -> Path | None:
    """The program ``java`` that Spark would run; None when there is none."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    return Path(found) if found is not None and Path(found).exists() else None


def class_path(ml: bool = True) -> str:
    """The class path of Spark's driver, in an order that is always the same.

    Java takes an archive for class paths that begin with that of the archive, so Spark's machine learning, which the
    archive does not have, comes last. Each session without it starts in half a second less: it adds two functions of
    vectors to SQL by Scala's reflection.
    """
    home = spark_home()
    jars = sorted(path.name for path in (home / "jars").glob("*.jar"))
    first = [name for name in jars if name.startswith("slf4j-api-")]
    last = [name for name in jars if name.startswith(_ML)]
    between = [name for name in jars if name not in (*first, *last)]
    names = (*first, *between, *(last if ml else ()))
    return ":".join((f"{home}/conf", *(f"{home}/jars/{name}" for name in names)))


def archive_path() -> Path | None:
    """Where the archive of this Java and this PySpark is, or would be; None when there is no Java or no home."""
    java = java_program()
    if java is None or not os.access(java, os.X_OK):
        return None
    digest = hashlib.sha256(b"%d" % _RECORDED)
    for path in (java.resolve(), spark_home() / "jars"):
        status = path.stat()
        digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        return None
    return base / "tidemill" / f"java-{digest.hexdigest()[:16]}.jsa"


def java_options() -> str:
    """The options with which Java uses the archive; empty when there is none."""
    path = archive_path()
    return f'"-XX:SharedArchiveFile={path}" {QUIET}' if path is not None and path.exists() else ""
