"""The formats of files by their names, and by what names of files end with."""

from __future__ import annotations

from flinkray.connectors.files.avro_files import AvroFiles
from flinkray.connectors.files.formats import (
    COMPRESSED,
    ArrowFiles,
    CsvFiles,
    FileFormat,
    JsonFiles,
    ParquetFiles,
    TextFiles,
)
from flinkray.connectors.files.orc_files import OrcFiles
from flinkray.errors import InvalidProgramError

FORMATS: dict[str, type[FileFormat]] = {
    "parquet": ParquetFiles,
    "csv": CsvFiles,
    "json": JsonFiles,
    "arrow": ArrowFiles,
    "orc": OrcFiles,
    "avro": AvroFiles,
    "text": TextFiles,
}
_SUFFIXES = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".orc": "orc",
    ".avro": "avro",
    ".txt": "text",
    ".log": "text",
}


def format_of(path: str) -> str:
    """The format that a file's name ends in.

    Raises:
        InvalidProgramError: none of those known.
    """
    plain = path.lower()
    plain = next((plain.removesuffix(suffix) for suffix in COMPRESSED if plain.endswith(suffix)), plain)
    for suffix, name in _SUFFIXES.items():
        if plain.endswith(suffix):
            return name
    raise InvalidProgramError(f"the name of {path} tells no format; set format= to one of {', '.join(FORMATS)}")
