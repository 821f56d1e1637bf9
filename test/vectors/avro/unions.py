"""What fastavro and Java's Avro write values as in unions: README.md beside this file says how to run it."""
import datetime
import decimal
import io
import itertools
import json
import sys

import fastavro


def record(name, **fields):
    def field(key, given):
        kind, *default = given if isinstance(given, tuple) else (given,)
        return {"name": key, "type": kind, **({"default": default[0]} if default else {})}

    return {"type": "record", "name": name, "fields": [field(key, given) for key, given in fields.items()]}


def logical(kind, name, **more):
    return {**({"type": kind} if isinstance(kind, str) else kind), "logicalType": name, **more}


def fixed(name, size):
    return {"type": "fixed", "name": name, "size": size}


TYPES = {
    **{name: name for name in ["null", "boolean", "int", "long", "float", "double", "string", "bytes"]},
    "enum": {"type": "enum", "name": "E", "symbols": ["A", "ab"]},
    "fixed": fixed("F", 2),
    "decimal": logical("bytes", "decimal", precision=9, scale=2),
    "fixed decimal": logical(fixed("D", 5), "decimal", precision=9, scale=2),
    "uuid": logical("string", "uuid"),
    "fixed uuid": logical(fixed("U", 16), "uuid"),
    "date": logical("int", "date"),
    "time-millis": logical("int", "time-millis"),
    "time-micros": logical("long", "time-micros"),
    "timestamp-millis": logical("long", "timestamp-millis"),
    "local-timestamp-micros": logical("long", "local-timestamp-micros"),
    "ints": {"type": "array", "items": "int"},
    "numbers": {"type": "array", "items": ["float", "long"]},
    "strings": {"type": "array", "items": "string"},
    "map of int": {"type": "map", "values": "int"},
    "map of double": {"type": "map", "values": "double"},
    "map of string": {"type": "map", "values": "string"},
    "X": record("X", x="int"),
    "Y": record("Y", x="double"),
    "XY": record("XY", x="long", y=("string", "")),
    "YX": record("YX", y="string", x="long"),
    "Maybe": record("Maybe", x=(["null", "int", "string"], None), y=["null", "string"]),
    "Inner": record("Inner", x=[{"type": "map", "values": "int"}, record("Deep", x="int"), "double", "int"]),
}

VALUES = {
    "nil": None, "true": True, "false": False,
    **{str(n): n for n in [0, 1, -1, 36, 2**31 - 1, 2**31, -(2**31) - 1, 2**40, 86_399_999, 86_400_000, 2**63 - 1]},
    **{str(n): n for n in [0.5, 1.0, 0.1]},
    "empty": "", "A": "A", "ab": "ab", "abc": "abc", "é": "é", "day as text": "2024-02-29",
    "id": "00000000-0000-0000-0000-000000000001", ":A": {"$symbol": "A"},
    "no bytes": {"$bytes": ""}, "bytes ab": {"$bytes": "6162"}, "bytes ff": {"$bytes": "ff"},
    "16 bytes": {"$bytes": "00" * 15 + "01"},
    "decimal 1.5": {"$decimal": "1.5"}, "Date": {"$date": "2024-02-29"}, "Time": {"$time": 1_709_164_800_000},
    "[]": [], "[1]": [1], "[1, 0.5]": [1, 0.5], "[a]": ["a"],
    "{}": {}, "{x: 1}": {"x": 1}, "{x: 0.5}": {"x": 0.5}, "{x: a}": {"x": "a"}, "{x: nil}": {"x": None}, "{y: b}": {"y": "b"},
    "{x: 1, y: b}": {"x": 1, "y": "b"}, "{x: a, y: b}": {"x": "a", "y": "b"}, "{x: 1, z: 2}": {"x": 1, "z": 2},
    "{x: {x: 1}}": {"x": {"x": 1}},
}

NUMBERS = ["int", "long", "float", "double", "decimal", "fixed decimal", "date", "time-millis", "time-micros",
           "timestamp-millis", "local-timestamp-micros"]
TEXTS = ["string", "uuid", "fixed uuid", "bytes", "enum", "fixed", "decimal", "date", "ints"]
HASHES = ["map of int", "map of double", "map of string", "X", "Y", "XY", "YX", "Maybe", "Inner"]
MORE = [
    ["null", "boolean", "int", "long", "float", "double", "bytes", "string"],
    ["string", "bytes", "double", "float", "long", "int", "boolean", "null"],
    ["null", "float", "int", "double"], ["null", "double", "time-millis", "timestamp-millis"],
    ["null", "numbers", "map of double", "float", "long"], ["strings", "string", "null"], ["ints", "bytes", "fixed"],
    ["null", "X", "XY", "YX", "Maybe"], ["null", "Maybe", "YX", "XY", "X"], ["XY", "X", "map of string", "null"],
    ["null", "fixed", "enum", "bytes", "string", "fixed uuid"], ["enum", "fixed", "date", "timestamp-millis", "fixed decimal"],
    ["boolean", "Inner", "map of int", "ints"], ["float", "string"], ["null", "decimal", "double", "string"],
]


def base(name):
    kind = TYPES[name]
    kind = kind if isinstance(kind, str) else kind["name"] if "name" in kind else kind["type"]
    return kind


def unions():
    for family in (NUMBERS, TEXTS, HASHES):
        for pair in itertools.permutations(family, 2):
            if base(pair[0]) != base(pair[1]):  # a union has one of a kind
                yield list(pair)
    yield from MORE


def python(value):
    if isinstance(value, list):
        return [python(item) for item in value]
    if not isinstance(value, dict):
        return value
    match list(value.items()):
        case [("$symbol", text)]:
            return text
        case [("$bytes", digits)]:
            return bytes.fromhex(digits)
        case [("$decimal", digits)]:
            return decimal.Decimal(digits)
        case [("$date", day)]:
            return datetime.date.fromisoformat(day)
        case [("$time", millis)]:
            return datetime.datetime.fromtimestamp(millis / 1000, datetime.timezone.utc)
    return {key: python(item) for key, item in value.items()}


def fastavro_choice(names, value):
    to = io.BytesIO()
    try:
        fastavro.schemaless_writer(to, [TYPES[name] for name in names], python(value))
    except Exception:
        return None
    return names[to.getvalue()[0] // 2]


def merge(java):
    made = {"by": f"unions.py and AvroUnions.java (README.md), fastavro {fastavro.__version__}, Java's Avro {java['version']}",
            "on": datetime.date.today().isoformat()}
    print(json.dumps({"made": made, "types": TYPES, "values": VALUES}))
    for names, taken in zip(unions(), java["choices"], strict=True):
        choices = {key: [taken.get(key, []), fastavro_choice(names, value)] for key, value in VALUES.items()}
        print(json.dumps({"union": names, "choices": {key: both for key, both in choices.items() if both != [[], None]}}))


if sys.argv[1] == "cases":
    print(json.dumps({"types": TYPES, "values": VALUES, "unions": list(unions())}))
else:
    with open(sys.argv[2], encoding="utf-8") as file:
        merge(json.load(file))
