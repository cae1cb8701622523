"""The public surface is a list: the names, their order, and a description of each."""

from __future__ import annotations

import ast
import inspect
from importlib.resources import files
from types import ModuleType

import pytest

import bandog
import bandog.sql
import bandog.testing

NATIVE = {"Admission", "CancellationToken", "ClaimedJob", "JobRecord"}


def test_all_is_sorted() -> None:
    assert bandog.__all__ == sorted(bandog.__all__)


def test_all_is_what_is_there() -> None:
    helpers = {"annotations", "Any", "TYPE_CHECKING"}
    public = {
        name
        for name in dir(bandog)
        if not name.startswith("_") and name not in helpers and not isinstance(getattr(bandog, name), ModuleType)
    }
    assert set(bandog.__all__) == public | {"__version__"}


def test_every_error_is_public_and_under_one_root() -> None:
    raised = {name for name in bandog.errors.__all__ if issubclass(getattr(bandog.errors, name), Exception)}
    assert raised == set(bandog.errors.__all__)
    assert raised <= set(bandog.__all__)
    assert all(issubclass(getattr(bandog.errors, name), bandog.BandogError) for name in raised)


@pytest.mark.parametrize("module", [bandog, bandog.testing, bandog.sql], ids=lambda module: module.__name__)
def test_every_public_name_is_described(module: ModuleType) -> None:
    assert module.__doc__
    silent = []
    for name in module.__all__:
        value = getattr(module, name)
        if not callable(value):
            continue
        # A dataclass without a docstring is given its signature as one.
        if not value.__doc__ or value.__doc__.startswith(f"{name}("):
            silent.append(name)
        if inspect.isclass(value) and name not in NATIVE:
            silent += [
                f"{name}.{member}"
                for member, body in vars(value).items()
                if not member.startswith("_")
                and (inspect.isfunction(body) or isinstance(body, property))
                and not body.__doc__
            ]
    assert silent == []


def test_every_member_of_the_native_classes_is_described_in_the_stub() -> None:
    stub = ast.parse((files("bandog") / "_core.pyi").read_text(encoding="utf-8"))
    assert ast.get_docstring(stub)
    silent = []
    for node in stub.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not ast.get_docstring(node):
            silent.append(node.name)
        if isinstance(node, ast.ClassDef):
            silent += [
                f"{node.name}.{member.name}"
                for member in node.body
                if isinstance(member, ast.FunctionDef) and not ast.get_docstring(member)
            ]
    assert silent == []
