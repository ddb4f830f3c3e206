"""Parquet files with damaged or encrypted footers are numbered errors; pyarrow could end the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

HERE = Path(__file__).parent


def in_process(script: str, *arguments: str) -> list[str]:
    """Lines that a Python process of its own prints, which must end well."""
    done = subprocess.run([sys.executable, script, *arguments], cwd=HERE, capture_output=True, text=True, timeout=500)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, (done.returncode, arguments, lines[-1:], done.stderr[-1000:])
    return lines


def test_each_byte_of_a_footer(seed: int) -> None:
    *read, sound = in_process("damaged_footers.py", str(seed))
    assert 100 < int(sound) < len(read) - 100


class _Keys(pe.KmsClient):
    """Keys that are wrapped by nothing."""

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> str:
        return key_bytes.hex()

    def unwrap_key(self, wrapped_key: str, master_key_identifier: str) -> bytes:
        return bytes.fromhex(wrapped_key)


def test_encrypted_columns_below_a_plain_footer(tmp_path: Path) -> None:
    keys = pe.EncryptionConfiguration(footer_key="f", column_keys={"c": ["b"]}, plaintext_footer=True)
    factory = pe.CryptoFactory(lambda configuration: _Keys())
    table = pa.table({"a": [1, 2], "b": ["x", "y"]})
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), keys)
    with pq.ParquetWriter(tmp_path / "file", table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    script = tmp_path / "reads.py"
    script.write_text(
        "import sys\n"
        "from tidemill.errors import FormatError\n"
        "from tidemill.formats.standalone.standalone import open_format\n"
        "try:\n"
        "    print(open_format('parquet', 'a BIGINT, b STRING').read(sys.argv[1], sys.argv[2:]).to_pydict())\n"
        "except FormatError as error:\n"
        "    print(error.number, error.got)\n"
    )
    assert in_process(str(script), str(tmp_path / "file"), "a") == ["{'a': [1, 2]}"]
    for needed in (["b"], ["a", "b"]):
        (line,) = in_process(str(script), str(tmp_path / "file"), *needed)
        assert line.startswith("TM4041 OSError: Cannot decrypt")
