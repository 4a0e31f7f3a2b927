"""Every Arrow type that Spark has a word for arrives with its values; every other is refused by name."""

from __future__ import annotations

import datetime
import decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from tests.spark.addresses import new_address
from tests.spark.producers import Producer, kept, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

D = decimal.Decimal
NOON = datetime.datetime(2026, 2, 3, 12, 30, 15, 250_000)
DAY = datetime.date(2026, 2, 3)
LONG = "a text of more than twelve bytes"


def _dictionary(values: list[Any], type: pa.DataType) -> pa.Array:
    return pa.array(values, type).dictionary_encode()


def _runs() -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["x", None]))


# name, Arrow array of three values, Spark's type, the values that Spark shows
CASES: list[tuple[str, pa.Array, str, list[Any]]] = [
    ("boolean", pa.array([True, None, False]), "boolean", [True, None, False]),
    ("int8", pa.array([-128, None, 127], pa.int8()), "tinyint", [-128, None, 127]),
    ("int16", pa.array([-32768, None, 7], pa.int16()), "smallint", [-32768, None, 7]),
    ("int32", pa.array([-(2**31), None, 7], pa.int32()), "int", [-(2**31), None, 7]),
    ("int64", pa.array([-(2**63), None, 7], pa.int64()), "bigint", [-(2**63), None, 7]),
    ("uint8", pa.array([255, None, 7], pa.uint8()), "smallint", [255, None, 7]),
    ("uint16", pa.array([65535, None, 7], pa.uint16()), "int", [65535, None, 7]),
    ("uint32", pa.array([2**32 - 1, None, 7], pa.uint32()), "bigint", [2**32 - 1, None, 7]),
    ("uint64", pa.array([2**64 - 1, None, 7], pa.uint64()), "decimal(20,0)", [D(2**64 - 1), None, D(7)]),
    ("half", pa.array([1.5, None, -0.25], pa.float16()), "float", [1.5, None, -0.25]),
    ("float", pa.array([1.5, None, -0.25], pa.float32()), "float", [1.5, None, -0.25]),
    ("double", pa.array([1.1, None, -0.1], pa.float64()), "double", [1.1, None, -0.1]),
    (
        "decimal_short",
        pa.array([D("1.25"), None, D("-99999999.99")], pa.decimal128(10, 2)),
        "decimal(10,2)",
        [D("1.25"), None, D("-99999999.99")],
    ),
    (
        "decimal_long",
        pa.array([D(10**37), None, D(-(10**37))], pa.decimal128(38, 0)),
        "decimal(38,0)",
        [D(10**37), None, D(-(10**37))],
    ),
    (
        "decimal256",
        pa.array([D("1.5"), None, D("-2.5")], pa.decimal256(20, 1)),
        "decimal(20,1)",
        [D("1.5"), None, D("-2.5")],
    ),
    *(
        (
            f"decimal{bits}",
            pa.array([D("1.25"), None, D("-999.99")], kind),
            "decimal(5,2)",
            [D("1.25"), None, D("-999.99")],
        )
        for bits, kind in ((32, pa.decimal32(5, 2)), (64, pa.decimal64(5, 2)))
    ),
    ("string", pa.array(["ü", None, LONG]), "string", ["ü", None, LONG]),
    ("large_string", pa.array(["ü", None, LONG], pa.large_string()), "string", ["ü", None, LONG]),
    ("string_view", pa.array(["ü", None, LONG], pa.string_view()), "string", ["ü", None, LONG]),
    ("binary", pa.array([b"\0", None, b"b"]), "binary", [b"\0", None, b"b"]),
    ("large_binary", pa.array([b"\0", None, b"b"], pa.large_binary()), "binary", [b"\0", None, b"b"]),
    (
        "binary_view",
        pa.array([b"\0", None, LONG.encode()], pa.binary_view()),
        "binary",
        [b"\0", None, LONG.encode()],
    ),
    ("fixed_binary", pa.array([b"abc", None, b"xyz"], pa.binary(3)), "binary", [b"abc", None, b"xyz"]),
    ("date32", pa.array([DAY, None, DAY]), "date", [DAY, None, DAY]),
    (
        "date64",
        pa.array([DAY, None, datetime.date(1960, 1, 1)], pa.date64()),
        "date",
        [DAY, None, datetime.date(1960, 1, 1)],
    ),
    *(
        (
            f"naive_{unit}",
            pa.array([value, None, value], pa.timestamp(unit)),
            "timestamp_ntz",
            [value, None, value],
        )
        for unit, value in (("s", NOON.replace(microsecond=0)), ("ms", NOON), ("us", NOON), ("ns", NOON))
    ),
    (
        "duration_s",
        pa.array([5, None, -7], pa.duration("s")),
        "interval day to second",
        [datetime.timedelta(seconds=5), None, datetime.timedelta(seconds=-7)],
    ),
    (
        "duration_ns",
        pa.array([5000, None, -7000], pa.duration("ns")),
        "interval day to second",
        [datetime.timedelta(microseconds=5), None, datetime.timedelta(microseconds=-7)],
    ),
    ("list", pa.array([[1, None], None, []], pa.list_(pa.int32())), "array<int>", [[1, None], None, []]),
    (
        "large_list",
        pa.array([["a"], None, []], pa.large_list(pa.string())),
        "array<string>",
        [["a"], None, []],
    ),
    (
        "fixed_list",
        pa.array([[1, 2], None, [3, None]], pa.list_(pa.int64(), 2)),
        "array<bigint>",
        [[1, 2], None, [3, None]],
    ),
    (
        "list_view",
        pa.array([[1, None], None, [2]], pa.list_view(pa.int16())),
        "array<smallint>",
        [[1, None], None, [2]],
    ),
    (
        "map",
        pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "map<string,bigint>",
        [{"a": 1}, None, {}],
    ),
    (
        "struct",
        pa.array(
            [{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}],
            pa.struct([("a", pa.int8()), ("b", pa.list_(pa.string()))]),
        ),
        "struct<a:tinyint,b:array<string>>",
        [(1, ["x"]), None, (None, None)],
    ),
    ("null", pa.nulls(3), "void", [None, None, None]),
    ("dictionary", _dictionary(["x", None, LONG], pa.string()), "string", ["x", None, LONG]),
    ("dictionary_of_numbers", _dictionary([5, None, 6], pa.int64()), "bigint", [5, None, 6]),
    ("runs", _runs(), "string", ["x", "x", None]),
]


@pytest.fixture(scope="module", params=["ipc", "tcp"])
def arrived(
    spark: SparkSession, request: pytest.FixtureRequest
) -> tuple[dict[str, str], dict[str, list[Any]]]:
    """The types and the values of one stream that has a column of each case."""
    table = pa.table({name: array for name, array, _, _ in CASES} | {"n": pa.array([0, 1, 2])})
    address = new_address(request.param)
    producer = Producer(address, table)
    frame = read(spark, address)
    types = {field.name: field.dataType.simpleString() for field in frame.schema}
    rows = sorted(frame.collect(), key=lambda row: row.n)
    producer.finish()
    return types, {name: [row[name] for row in rows] for name in types}


@pytest.mark.row("P31")
@pytest.mark.parametrize("name,array,type,values", CASES, ids=[case[0] for case in CASES])
def test_an_arrow_type_arrives_with_its_values(
    arrived: tuple[dict[str, str], dict[str, list[Any]]],
    name: str,
    array: pa.Array,
    type: str,
    values: list[Any],
) -> None:
    types, columns = arrived
    assert types[name] == type
    shown = [bytes(value) if isinstance(value, bytearray) else value for value in columns[name]]
    assert [tuple(v) if isinstance(v, tuple) else v for v in shown] == values


@pytest.mark.row("P31")
def test_instants_months_and_times_arrive(spark: SparkSession, ipc: str) -> None:
    table = pa.table(
        {
            "instant": pa.array([0, 1_500], pa.timestamp("ms", "Europe/Berlin")),
            "nanos": pa.array([2_000, 3_000], pa.timestamp("ns", "UTC")),
            "months": pa.array([(14, 3, 5_000), (0, 0, 0)], pa.month_day_nano_interval()),
            "seconds": pa.array([datetime.time(1, 2, 3), None], pa.time32("s")),
            "micros": pa.array([datetime.time(1, 2, 3, 4), None], pa.time64("us")),
        }
    )
    producer = Producer(ipc, table)
    rows = read(spark, ipc).selectExpr(
        "unix_millis(instant) instant",
        "unix_micros(nanos) nanos",
        "cast(months as string) months",
        "cast(seconds as string) seconds",
        "cast(micros as string) micros",
    )
    assert [tuple(row) for row in rows.collect()] == [
        (0, 2, "1 years 2 months 3 days 0.000005 seconds", "01:02:03", "01:02:03.000004"),
        (1500, 3, "0 seconds", None, None),
    ]
    producer.finish()


@pytest.mark.parametrize(
    "type,word",
    [
        (pa.dense_union([pa.field("a", pa.int32())]), "Union"),
        (pa.decimal256(50, 2), "38 digits"),
        (pa.struct([("deep", pa.sparse_union([pa.field("a", pa.int32())]))]), "x.deep"),
    ],
    ids=["union", "decimal of 50 digits", "nested"],
)
def test_a_type_without_a_counterpart_is_refused_by_name(
    spark: SparkSession, ipc: str, type: pa.DataType, word: str
) -> None:
    schema = pa.schema([("x", type)])
    with kept(ipc):
        writer = lwmq.open_writer(ipc, schema, linger=0)
        with pytest.raises(Exception, match="LWMQ_SCHEMA") as caught:
            read(spark, ipc)
        text = str(lwmq.error_of(caught.value))
        assert "field x" in text and word in text
        writer.abort("over")


DAY_MS = 86_400_000
# What a column holds, and what is said of it.
INEXACT: dict[str, tuple[pa.Array, str]] = {
    "date64 beyond Spark's days": (
        pa.array([185_542_587_619_200_000, None], pa.int64()).view(pa.date64()),
        "185542587619200000 ms does not fit Spark's dates",
    ),
    "date64 before Spark's days": (
        pa.array([-(2**31 + 1) * DAY_MS, None], pa.int64()).view(pa.date64()),
        f"-{(2**31 + 1) * DAY_MS} ms does not fit Spark's dates",
    ),
    "date64 with a time of day": (
        pa.array([DAY_MS + 5, None], pa.int64()).view(pa.date64()),
        "86400005 ms is no whole number of days",
    ),
    "date64 before 1970 with a time of day": (
        pa.array([-1, None], pa.int64()).view(pa.date64()),
        "-1 ms is no whole number of days",
    ),
    "time of a whole day": (
        pa.array([86_400, None], pa.int32()).view(pa.time32("s")),
        "86400 s is no time of day",
    ),
    "time in ms": (
        pa.array([DAY_MS + 1, None], pa.int32()).view(pa.time32("ms")),
        "86400001 ms is no time of day: a day has 86400000 ms",
    ),
    "time in us": (
        pa.array([2**62, None], pa.int64()).view(pa.time64("us")),
        f"{2**62} us is no time of day",
    ),
    "time in ns": (
        pa.array([DAY_MS * 1_000_000, None], pa.int64()).view(pa.time64("ns")),
        "86400000000000 ns is no time of day",
    ),
    "time before the day": (
        pa.array([-1, None], pa.int64()).view(pa.time64("ns")),
        "-1 ns is no time of day",
    ),
    "timestamp": (
        pa.array([2**62, None], pa.timestamp("s")),
        f"{2**62} s does not fit Spark's microseconds",
    ),
    "duration": (
        pa.array([-(2**62), None], pa.duration("ms")),
        f"-{2**62} ms does not fit Spark's microseconds",
    ),
}


@pytest.mark.parametrize("shape", ["column", "list", "struct", "map", "dictionary"])
def test_a_value_that_sparks_type_cannot_hold_is_refused_with_its_field_and_itself(
    spark: SparkSession, ipc: str, shape: str
) -> None:
    """Never cut, never wrapped; and the other columns are read."""

    def shaped(array: pa.Array) -> tuple[pa.Array, str]:
        offsets = pa.array([0, 1, 2], pa.int32())
        if shape == "list":
            return pa.ListArray.from_arrays(offsets, array), ".item"
        if shape == "struct":
            return pa.StructArray.from_arrays([array], ["deep"]), ".deep"
        if shape == "map":
            return pa.MapArray.from_arrays(offsets, pa.array([1, 2]), array), ".value"
        if shape == "dictionary":
            return pa.DictionaryArray.from_arrays(pa.array([0, 1]), array), ""
        return array, ""

    names = {name: name.translate(str.maketrans(" '", "__")) for name in INEXACT}
    table = pa.table({names[name]: shaped(array)[0] for name, (array, _) in INEXACT.items()} | {"n": [1, 2]})
    with kept(ipc):
        producer = Producer(ipc, table, retain="all")
        frame = read(spark, ipc)
        assert frame.selectExpr("sum(n)").first() == (3,)
        asked = {name: f"`{names[name]}`{'.deep' if shape == 'struct' else ''}" for name in INEXACT}
        for name, (array, said) in INEXACT.items():
            below = shaped(array)[1]
            with pytest.raises(Exception, match=f"LWMQ_SCHEMA: field {names[name]}[a-z.]*{below}: {said}"):
                frame.selectExpr(f"string({asked[name]})").collect()
        if shape in ("column", "struct"):  # what lies under a null is nobody's value
            nulls = frame.where("n = 2").selectExpr(*(f"string({sql})" for sql in asked.values())).collect()
            assert [tuple(row) for row in nulls] == [(None,) * len(INEXACT)]
        producer.finish()


def test_nanoseconds_that_spark_cannot_hold_are_an_error_and_never_cut(spark: SparkSession, ipc: str) -> None:
    with kept(ipc):
        producer = Producer(ipc, pa.table({"t": pa.array([1_001], pa.timestamp("ns"))}), retain="all")
        with pytest.raises(Exception, match="field t: 1001 ns is no whole number of microseconds"):
            read(spark, ipc).collect()
        assert read(spark, ipc).count() == 1
        producer.finish()


def test_fields_of_structs_are_pruned_one_by_one(spark: SparkSession, ipc: str) -> None:
    rows = [{"a": n, "b": f"text {n}", "c": {"d": n / 2}} for n in range(100)]
    table = pa.table({"s": pa.array(rows), "list": pa.array([[row] for row in rows])})
    with kept(ipc):
        producer = Producer(ipc, table, retain="all")
        frame = read(spark, ipc)
        assert sorted(row[0] for row in frame.select("s.c.d").collect()) == [n / 2 for n in range(100)]
        assert sorted(row[0][0] for row in frame.select("list.a").collect()) == list(range(100))
        assert frame.where("s.a = 7").select("s").collect()[0].s.b == "text 7"
        producer.finish()


def test_dictionaries_may_differ_from_batch_to_batch(spark: SparkSession, ipc: str) -> None:
    schema = pa.schema([("word", pa.dictionary(pa.int8(), pa.string())), ("n", pa.int64())])
    first = pa.record_batch(
        [_dictionary(["a", "b"], pa.string()).cast(schema[0].type), pa.array([0, 1])], schema=schema
    )
    second = pa.record_batch(
        [_dictionary(["c", None], pa.string()).cast(schema[0].type), pa.array([2, 3])], schema=schema
    )
    with kept(ipc):
        producer = Producer(ipc, pa.Table.from_batches([first, second]), retain="all")
        frame = read(spark, ipc)
        assert [row.word for row in frame.orderBy("n").collect()] == ["a", "b", "c", None]
        assert frame.where("word = 'c'").count() == 1
        producer.finish()


@pytest.mark.row("P31")
def test_what_spark_wrote_comes_back_in_sparks_own_words(spark: SparkSession, ipc: str) -> None:
    frame = spark.range(4).selectExpr(
        "id",
        "cast(id as string) collate UNICODE_CI name",
        "if(id = 0, null, parse_json('{\"a\": ' || id || '}')) v",
        "make_ym_interval(1, int(id)) months",
        "make_dt_interval(0, 0, int(id)) minutes",
        "array(struct(id, timestamp_micros(id) t)) deep",
    )
    frame.write.format("lwmq").mode("append").option("retain", "all").save(ipc)
    again = read(spark, ipc)
    assert again.dtypes == frame.dtypes
    assert all(field.nullable for field in again.schema)  # the next job that appends may have nulls
    shown = ["id", "name", "to_json(v)", "string(months)", "string(minutes)", "deep"]
    assert sorted(again.selectExpr(*shown).collect()) == sorted(frame.selectExpr(*shown).collect())
