"""The hand-written stub names what the binary has: no more, no less, with the same parameters.

Types are held by `mypy.stubtest`, which `.ci/run` runs; this needs no type checker.
"""

from __future__ import annotations

import ast
import inspect
from importlib.resources import files

import pytest

from bandog import _core

STUB = ast.parse((files("bandog") / "_core.pyi").read_text(encoding="utf-8"))
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
FUNCTIONS = {node.name: node for node in STUB.body if isinstance(node, ast.FunctionDef)}
CONSTANTS = {
    node.target.id
    for node in STUB.body
    if isinstance(node, ast.AnnAssign)
    and isinstance(node.target, ast.Name)
    # Aliases and the like are for the stub's own use.
    and (not node.target.id.startswith("_") or node.target.id.startswith("__"))
}


def declared(function: ast.FunctionDef) -> list[tuple[str, str, bool]]:
    """Name, kind and whether there is a default, of each parameter but `self` and `cls`."""
    arguments = function.args
    positional = arguments.args
    defaults = [False] * (len(positional) - len(arguments.defaults)) + [True] * len(arguments.defaults)
    found = [(each.arg, "positional", default) for each, default in zip(positional, defaults, strict=True)]
    found += [
        (each.arg, "keyword", default is not None)
        for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    return [parameter for parameter in found if parameter[0] not in {"self", "cls"}]


def actual(function: object) -> list[tuple[str, str, bool]]:
    return [
        (
            parameter.name,
            "keyword" if parameter.kind is inspect.Parameter.KEYWORD_ONLY else "positional",
            parameter.default is not inspect.Parameter.empty,
        )
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name not in {"self", "cls"}
    ]


def test_the_module_has_the_names_of_the_stub() -> None:
    assert set(_core.__all__) == {*CLASSES, *FUNCTIONS, *CONSTANTS}
    (exported,) = [
        ast.literal_eval(node.value)
        for node in STUB.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"
    ]
    assert sorted(exported) == sorted(_core.__all__)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_a_class_has_the_members_of_the_stub(name: str) -> None:
    members = [member for member in CLASSES[name].body if isinstance(member, ast.FunctionDef)]
    declared_members = {member.name for member in members if member.name != "__new__"}
    runtime = {member for member in vars(getattr(_core, name)) if not member.startswith("__")}
    assert declared_members == runtime


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_a_property_of_the_stub_is_one_and_a_method_takes_its_parameters(name: str) -> None:
    cls = getattr(_core, name)
    for member in CLASSES[name].body:
        if not isinstance(member, ast.FunctionDef):
            continue
        decorators = {decorator.id for decorator in member.decorator_list if isinstance(decorator, ast.Name)}
        value = inspect.getattr_static(cls, member.name)
        assert inspect.isgetsetdescriptor(value) == ("property" in decorators), member.name
        if "property" not in decorators:
            function = cls if member.name == "__new__" else getattr(cls, member.name)
            assert actual(function) == declared(member), member.name


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_takes_the_parameters_of_the_stub(name: str) -> None:
    assert actual(getattr(_core, name)) == declared(FUNCTIONS[name])
