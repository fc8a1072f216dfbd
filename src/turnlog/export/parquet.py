"""Tables as Parquet, a directory a table, split by day, for DuckDB, pandas and Spark.

    DIR/messages/day=2026-11-01/part-0-0.parquet

The directory is made beside its name and renamed when all of it is there: it is whole or not there.
One that exists is replaced only if turnlog made it, which ``_turnlog.json`` in it tells. Needs
pyarrow, the extra ``turnlog[parquet]``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from turnlog.errors import UsageError
from turnlog.export.tables import TABLES, Row, TableName
from turnlog.storage.atomic_files import temporary_name
from turnlog.storage.system import sync, sync_directory

MARK: Final = "_turnlog.json"
SCHEMA_VERSION: Final = 1
UNDATED: Final = date(1970, 1, 1)
"""The day of what nothing dates: pandas cannot read parts of which some have none."""
_ROWS: Final = 8192


def write_parquet(target: Path, tables: Mapping[TableName, Iterable[Row]], *, force: bool) -> int:
    """Write *tables* into the directory *target*; give its size in bytes."""
    arrow = _arrow()
    if os.path.lexists(target):
        _refuse(target, force=force)
    made = target.with_name(temporary_name())
    os.mkdir(made, 0o700)
    try:
        for name, rows in tables.items():
            _write(arrow, made / name, name, rows)
        about = {"schema": SCHEMA_VERSION, "tables": list(tables)}
        (made / MARK).write_bytes(msgspec.json.encode(about) + b"\n")
        size = _settle(made)
        _put(made, target)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return size


def schema_of(name: TableName) -> Any:
    """Return the schema of a table as pyarrow has it."""
    arrow = _arrow()
    kinds = {
        "text": arrow.string(),
        "instant": arrow.timestamp("us", tz="UTC"),
        "day": arrow.date32(),
        "count": arrow.int64(),
        "flag": arrow.bool_(),
        "money": arrow.decimal128(38, 18),
    }
    return arrow.schema([(column.name, kinds[column.kind]) for column in TABLES[name]])


def _write(arrow: Any, place: Path, name: TableName, rows: Iterable[Row]) -> None:
    from pyarrow import dataset

    schema = schema_of(name)
    days = dataset.partitioning(arrow.schema([schema.field("day")]), flavor="hive")
    os.mkdir(place, 0o700)
    # Part by part, here: the library would ask for rows in a thread of its own.
    for number, batch in enumerate(_batches(arrow, schema, rows)):
        dataset.write_dataset(
            batch,
            place,
            format="parquet",
            partitioning=days,
            basename_template=f"part-{number}-{{i}}.parquet",
            existing_data_behavior="overwrite_or_ignore",
            max_partitions=1 << 16,
            use_threads=False,
        )


def _batches(arrow: Any, schema: Any, rows: Iterable[Row]) -> Iterator[Any]:
    """Put rows into columns, so many at a time; once also if there is none."""
    left = iter(rows)
    some = list(islice(left, _ROWS))
    while True:
        columns = zip(*some, strict=True) if some else [()] * len(schema)
        arrays = [
            arrow.array(_fitting(values, field), field.type)
            for values, field in zip(columns, schema, strict=True)
        ]
        yield arrow.Table.from_arrays(arrays, schema=schema)
        some = list(islice(left, _ROWS))
        if not some:
            return


def _fitting(values: tuple[Any, ...], field: Any) -> list[Any]:
    """Cut what no column can hold: a log may claim more tokens than there are numbers."""
    if field.name == "day":
        return [each or UNDATED for each in values]
    if str(field.type) != "int64":
        return list(values)
    most = (1 << 63) - 1
    return [None if each is None else min(each, most) for each in values]


def _settle(directory: Path) -> int:
    """Make what was written durable and private; give its size."""
    size = 0
    for root, folders, files in os.walk(directory):
        for name in files:
            path = os.path.join(root, name)
            os.chmod(path, 0o600)
            fd = os.open(path, os.O_RDONLY)
            try:
                sync(fd)
                size += os.fstat(fd).st_size
            finally:
                os.close(fd)
        for name in folders:
            os.chmod(os.path.join(root, name), 0o700)
    return size


def _put(made: Path, target: Path) -> None:
    """Give the directory its name; one that has it already goes out of the way first."""
    old = made.with_suffix(".old") if os.path.lexists(target) else None
    if old is not None:
        os.rename(target, old)
    os.rename(made, target)
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
    fd = os.open(target.parent, os.O_RDONLY)
    try:
        sync_directory(fd)
    finally:
        os.close(fd)


def _refuse(target: Path, *, force: bool) -> None:
    if not force:
        raise UsageError(
            f"{target} exists", hint="pass force=True to replace it", code="file-exists"
        )
    if target.is_symlink() or not target.is_dir() or not (target / MARK).is_file():
        is_empty = target.is_dir() and not target.is_symlink() and not any(target.iterdir())
        if not is_empty:
            raise UsageError(
                f"{target} was not made by turnlog export, and is not replaced",
                hint="name a directory that does not exist yet",
            )


def _arrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        raise UsageError(
            "Parquet needs pyarrow, which is not installed",
            hint="install it with: pip install 'turnlog[parquet]'",
        ) from None
    return pa
