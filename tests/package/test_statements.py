"""SQL is read through `bandog.sql`, from the files that the engine was compiled with."""

from __future__ import annotations

from pathlib import Path

import pytest

from bandog import sql

FOLDER = Path(__file__).parents[2] / "python" / "bandog" / "sql"
STATEMENTS = sorted(FOLDER.glob("*/*.sql"))
DIALECTS = sorted({path.parent.name for path in STATEMENTS})


def test_there_are_some() -> None:
    assert "sqlite" in DIALECTS
    assert {"ingest", "claim", "renew", "settle", "recover", "read"} <= {path.stem for path in STATEMENTS}


@pytest.mark.parametrize("path", STATEMENTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_statement_is_its_file(path: Path) -> None:
    text = sql.statement(path.parent.name, path.stem)
    assert text == path.read_text(encoding="utf-8")
    assert text.startswith("--"), "the first lines say what it is for"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_migrations_are_their_files_in_order(dialect: str) -> None:
    paths = sorted((FOLDER / dialect / "migrations").glob("*.sql"))
    assert [path.stem for path in paths] == [f"{number:04}" for number in range(1, len(paths) + 1)]
    assert sql.migrations(dialect) == tuple(path.read_text(encoding="utf-8") for path in paths)


def test_a_statement_that_is_not_there_is_said_so() -> None:
    with pytest.raises(FileNotFoundError):
        sql.statement("sqlite", "no_such_statement")


def test_every_statement_is_compiled_in() -> None:
    engine = FOLDER.parents[2] / "rust" / "store" / "sql.rs"
    sqlite, postgres = engine.read_text(encoding="utf-8").split("pub(crate) mod postgres")
    assert [path.stem for path in STATEMENTS if path.parent.name == "sqlite" and f'"{path.stem}"' not in sqlite] == []
    missing = [path.stem for path in STATEMENTS if path.parent.name == "postgres" and f" {path.stem};" not in postgres]
    assert sorted(missing) == ["read_plain", "settle_wait"], "these two are of the caller's transaction alone"


@pytest.mark.parametrize("schema", ["MyApp", 'we"ird', "x" * 63, "with space", "a.b"])
def test_a_migration_is_for_any_schema(schema: str) -> None:
    (text,) = sql.migrations("postgres", schema=schema)
    quoted = schema.replace('"', '""')
    assert f'CREATE TABLE "{quoted}".job (' in text
    assert " bandog.job" not in text


@pytest.mark.parametrize("schema", ["", "x" * 64, "é" * 32, "a$b", "a\nb", "a\0b"])
def test_a_name_that_could_not_be_quoted_is_refused(schema: str) -> None:
    with pytest.raises(ValueError, match="schema"):
        sql.in_schema("SELECT 1 FROM bandog.job", schema)
