"""The canonical JSON form, held to one set of vectors from three sides: Rust, the native walker, and plain Python.

The first test is the definition: what the standard library writes for a value is the canonical form. The others hold
`bandog._core` to it, byte for byte, and to the path and reason of each refusal.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandog import _core
from bandog.errors import PayloadError

LIMIT = 1 << 20
VECTORS: dict[str, list[Any]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "json.json").read_text(encoding="utf-8")
)
# What a refusal of each kind says, in words that stand in no other (the same table is in rust/json/tests.rs).
REASONS = {
    "duplicate_key": "two members of this key",
    "not_finite": "must be finite",
    "surrogate": "lone surrogate",
    "syntax": "not valid JSON",
    "depth": "nested deeper",
    "size": "bytes as JSON",
    "integer_size": "integer of more than",
}


def python_form(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def named(vectors: list[dict[str, Any]]) -> Any:
    return pytest.mark.parametrize("vector", [pytest.param(vector, id=vector["name"]) for vector in vectors])


def readable(vector: dict[str, Any]) -> bool:
    """Whether the fault survives Python's own reader, so that a value can have it too."""
    try:
        json.loads(vector["text"])
    except (ValueError, RecursionError):
        return False
    return vector["reason"] != "duplicate_key"


def refusal(value: object, limit: int = LIMIT) -> PayloadError:
    with pytest.raises(PayloadError) as caught:
        _core.canonical_json(value, limit)
    assert caught.value.path.isprintable()
    return caught.value


@named(VECTORS["accepted"])
def test_python_writes_the_canonical_form(vector: dict[str, Any]) -> None:
    value = json.loads(vector["text"])
    assert python_form(value) == vector["canonical"]
    assert python_form(json.loads(vector["canonical"])) == vector["canonical"]


@named(VECTORS["accepted"])
def test_native_form_of_a_value(vector: dict[str, Any]) -> None:
    value = json.loads(vector["text"])
    assert _core.canonical_json(value, vector.get("limit", LIMIT)) == vector["canonical"]


@named(VECTORS["accepted"])
def test_native_form_of_a_text(vector: dict[str, Any]) -> None:
    assert _core.canonical_json_text(vector["text"], vector.get("limit", LIMIT)) == vector["canonical"]


@named(VECTORS["refused"])
def test_refused_text_names_place_and_reason(vector: dict[str, Any]) -> None:
    with pytest.raises(PayloadError, match=REASONS[vector["reason"]]) as caught:
        _core.canonical_json_text(vector["text"], vector.get("limit", LIMIT))
    assert caught.value.path == vector["path"]
    assert caught.value.path.isprintable()


@named(list(filter(readable, VECTORS["refused"])))
def test_refused_value_names_place_and_reason(vector: dict[str, Any]) -> None:
    error = refusal(json.loads(vector["text"]), vector.get("limit", LIMIT))
    assert (error.path, REASONS[vector["reason"]] in str(error)) == (vector["path"], True)


@pytest.mark.parametrize("kind", ["equal", "different"])
def test_equal_and_different_texts_are_told_apart(kind: str) -> None:
    for pair in VECTORS[kind]:
        forms = {_core.canonical_json_text(text, LIMIT) for text in pair}
        assert (len(forms) == 1) == (kind == "equal"), pair


class Number(enum.IntEnum):
    HUGE = 10**30
    SEVEN = 7


class Text(enum.StrEnum):
    RED = "red"


class Shouting(str):
    """A string whose own ideas of itself must not count."""

    __slots__ = ()

    def __str__(self) -> str:
        return "WRONG"

    __repr__ = __str__

    def __len__(self) -> int:
        return 10**9

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


class Measure(float):
    __slots__ = ()

    def __repr__(self) -> str:
        return "WRONG"


Point = collections.namedtuple("Point", "x y")  # noqa: PYI024 - the untyped form is what users have


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "true"),
        (1, "1"),
        (1.0, "1.0"),
        ((1, (), [True]), "[1,[],[true]]"),
        (Point(1, {"a": None}), '[1,{"a":null}]'),
        ([Number.SEVEN, Number.HUGE], "[7,1000000000000000000000000000000]"),
        ({Text.RED: Text.RED}, '{"red":"red"}'),
        (Shouting("é"), '"é"'),
        ({Shouting("b"): 1, "a": 2}, '{"a":2,"b":1}'),
        (Measure(0.5), "0.5"),
        (collections.OrderedDict(b=1, a=2), '{"a":2,"b":1}'),
        (collections.defaultdict(list, b=[1], a=[]), '{"a":[],"b":[1]}'),
        (collections.Counter("aab"), '{"a":2,"b":1}'),
    ],
)
def test_subclasses_are_taken_by_value(value: object, expected: str) -> None:
    assert _core.canonical_json(value, LIMIT) == expected
    if not isinstance(value, Shouting):
        assert python_form(value) == expected


class BadList(list[Any]):
    def __iter__(self) -> Any:
        raise RuntimeError("broken\n\ud800\0")


class BadDict(dict[str, Any]):
    def items(self) -> Any:
        return [1]


NOT_JSON = "is not JSON; allowed are"
REFUSED_VALUES = [
    (math.nan, "must be finite"),
    (-math.inf, "-Infinity is not JSON"),
    ("\ud800", r"lone surrogate \(at character 0\)"),
    ("ab\ud83d\ude00", r"lone surrogate \(at character 2\)"),
    (Shouting("\udfff"), "lone surrogate"),
    (10**640, "more than 640 digits"),
    (-(10**5000), "more than 640 digits"),
    ({1, 2}, f"type set {NOT_JSON}"),
    (b"a", f"type bytes {NOT_JSON}"),
    (bytearray(), f"type bytearray {NOT_JSON}"),
    (datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), f"type datetime.datetime {NOT_JSON}"),
    (decimal.Decimal(1), f"type decimal.Decimal {NOT_JSON}"),
    (1j, f"type complex {NOT_JSON}"),
    (object(), f"type object {NOT_JSON}"),
    (range(3), f"type range {NOT_JSON}"),
    ({"a": 1}.keys(), f"type dict_keys {NOT_JSON}"),
    ({1: 2}, "key of type int; keys must be strings"),
    ({"a": 1, None: 2}, "key of type NoneType"),
    ({("a",): 1}, "key of type tuple"),
    ({b"a": 1}, "key of type bytes"),
    ({"a": 1, "\ud800": 2}, "in a key: a string with a lone surrogate"),
    (BadList([1]), "raised RuntimeError: "),
    (BadDict(a=1), "raised TypeError: "),
]


@pytest.mark.parametrize(
    ("value", "problem"),
    REFUSED_VALUES,
    ids=lambda part: part if isinstance(part, str) and part.isascii() else type(part).__name__,
)
def test_refused_values_name_their_path(value: object, problem: str) -> None:
    with pytest.raises(PayloadError, match=problem):
        _core.canonical_json(value, LIMIT)
    assert refusal(value).path == "$"
    assert refusal({"z": 0, "a": {"odd key": (0, [1], value)}, "b": 1}).path == '$.a["odd key"][2]'
    assert refusal([{"a": [1]}, collections.OrderedDict(x=(), y=value), 2]).path == "$[1].y"


def test_two_keys_of_one_text() -> None:
    error = refusal({"x": [{"m": 1, Shouting("a"): 1, "k": 3, Shouting("a"): 2}]})
    assert error.path == "$.x[0].a"
    assert REASONS["duplicate_key"] in str(error)


@pytest.mark.parametrize(
    "wrap",
    [lambda v: [v], lambda v: (v,), lambda v: {"a": v}, lambda v: collections.OrderedDict(a=v), lambda v: Point(v, 1)],
    ids=["list", "tuple", "dict", "dict subclass", "tuple subclass"],
)
def test_depth(wrap: Any) -> None:
    value: Any = 1
    for _ in range(128):
        value = wrap(value)
    assert _core.canonical_json(value, LIMIT) == python_form(value)
    assert REASONS["depth"] in str(refusal(wrap(value)))


def test_cycles_are_refused() -> None:
    cycle: list[Any] = []
    cycle.append({"self": cycle})
    error = refusal(cycle)
    assert error.path == "$" + "[0].self" * 64
    assert "contains itself" in str(error)


def test_size_counts_bytes_and_stops_early() -> None:
    value = {"é": ["\x00", 1.5]}
    size = len(python_form(value).encode())
    assert _core.canonical_json(value, size) == python_form(value)
    assert refusal(value, size - 1).path == "$"
    # 2**60 numbers if anyone built it.
    doubling: Any = [1]
    for _ in range(60):
        doubling = [doubling, doubling]
    assert REASONS["size"] in str(refusal(doubling))
    assert REASONS["size"] in str(refusal(dict.fromkeys(map(str, range(1000))), 3999))
    assert REASONS["size"] in str(refusal("\ud800" * 100, 99))


def test_integers_do_not_depend_on_the_interpreter_setting() -> None:
    before = sys.get_int_max_str_digits()
    try:
        for setting in (640, 0):
            sys.set_int_max_str_digits(setting)
            largest = 10**640 - 1
            assert _core.canonical_json([largest, -largest], LIMIT) == python_form([largest, -largest])
            for larger in (10**640, -(10**640), 10**641, 1 << 2127, 1 << 1_000_000):
                assert REASONS["integer_size"] in str(refusal(larger))
    finally:
        sys.set_int_max_str_digits(before)


def test_dict_that_changes_while_it_is_read() -> None:
    changing: dict[str, Any] = {}

    class Changes(list[int]):
        def __iter__(self) -> Any:
            changing.clear()
            changing.update(dict.fromkeys(map(str, range(100))))
            return iter([1])

    changing.update(a=Changes(), b=[2])
    assert _core.canonical_json(changing, LIMIT) == '{"a":[1],"b":[2]}'


def test_interrupts_are_not_swallowed() -> None:
    class Interrupted(list[int]):
        def __iter__(self) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _core.canonical_json([Interrupted()], LIMIT)


def test_text_with_a_raw_surrogate() -> None:
    with pytest.raises(PayloadError, match="lone surrogate") as caught:
        _core.canonical_json_text('["\ud800"]', LIMIT)
    assert caught.value.path == "$"


KEYS = st.text(max_size=8) | st.text(alphabet='ab\\"\n\x00\x1f\ue000\U0001f600', max_size=4)
INTEGERS = st.integers() | st.integers(min_value=-(10**40), max_value=10**40) | st.integers(62, 66).map(lambda n: 2**n)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | FLOATS | st.text() | KEYS,
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.lists(inner, max_size=6).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=6)
        | st.dictionaries(KEYS, inner, max_size=6).map(collections.OrderedDict)
    ),
    max_leaves=30,
)


@given(VALUES)
def test_native_form_is_what_python_writes(value: object) -> None:
    form = python_form(value)
    size = len(form.encode())
    assert _core.canonical_json(value, size) == form
    assert refusal(value, size - 1).path == "$"
    for spelled in (form, json.dumps(value), json.dumps(value, indent=2, ensure_ascii=False)):
        assert _core.canonical_json_text(spelled, size) == form


@given(FLOATS)
def test_floats_read_back_as_they_were(value: float) -> None:
    form = _core.canonical_json(value, LIMIT)
    assert form == repr(value)
    assert math.copysign(1, float(form)) == math.copysign(1, value)
