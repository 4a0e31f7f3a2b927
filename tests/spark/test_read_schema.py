"""Which schema a stream has in Spark: whose word is taken for nulls, how names are found, and what can
be read beside what cannot.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from tests.spark.producers import end, kept, publish_unchecked, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOON = datetime.datetime(2026, 2, 3, 12, 30)
ONE = decimal.Decimal("1.25")

# A column of three values, the middle one null or with a null inside.
NULLS: dict[str, pa.Array] = {
    "k": pa.array([1, None, 3], pa.int64()),
    "text": pa.array(["a", None, "c"]),
    "view": pa.array(["a", None, "c"], pa.string_view()),
    "bytes": pa.array([b"a", None, b"c"]),
    "flag": pa.array([True, None, False]),
    "small": pa.array([1, None, 3], pa.int8()),
    "real": pa.array([0.5, None, 1.5]),
    "money": pa.array([ONE, None, ONE], pa.decimal128(10, 2)),
    "money_wide": pa.array([ONE, None, ONE], pa.decimal128(30, 2)),
    "money_256": pa.array([ONE, None, ONE], pa.decimal256(10, 2)),
    "moment": pa.array([NOON, None, NOON], pa.timestamp("us")),
    "moment_ms": pa.array([NOON, None, NOON], pa.timestamp("ms")),
    "day": pa.array([NOON.date(), None, NOON.date()]),
    "day_ms": pa.array([NOON.date(), None, NOON.date()], pa.date64()),
    "list": pa.array([[1], None, [3]], pa.list_(pa.int32())),
    "list_of_null": pa.array([["a"], ["b", None], []], pa.list_(pa.string())),
    "list_view": pa.array([[1], [2, None], []], pa.list_view(pa.int64())),
    "struct": pa.array([{"a": 1}, None, {"a": 3}], pa.struct([("a", pa.int64())])),
    "struct_of_null": pa.array([{"a": "x"}, {"a": None}, {"a": "z"}], pa.struct([("a", pa.string())])),
    "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "map_of_null": pa.array([[("a", 1)], [("b", None)], []], pa.map_(pa.string(), pa.int64())),
    "deep": pa.array(
        [[{"a": ["x"]}], [{"a": None}, {"a": [None]}], [None]],
        pa.list_(pa.struct([("a", pa.list_(pa.string()))])),
    ),
    "word": pa.array(["x", None, "y"]).dictionary_encode(),
}


def _strict(kind: pa.DataType) -> pa.DataType:
    """The type with everything below it declared not null."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_strict(field.type)).with_nullable(False) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_list_view(kind):
        element = kind.value_field.with_type(_strict(kind.value_type)).with_nullable(False)
        return pa.list_(element) if pa.types.is_list(kind) else pa.list_view(element)
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_nullable(False))
    return kind


@pytest.fixture(scope="module")
def strict(spark: SparkSession) -> Iterator[str]:
    """The address of a stream that declares all of NULLS not null, and has its nulls all the same."""
    address = "ipc://spark-not-null"
    schema = pa.schema([pa.field(name, _strict(array.type), False) for name, array in NULLS.items()])
    with kept(address):
        writer = lwmq.open_writer(address, schema, role="client", retain="all", linger=0)
        publish_unchecked(writer, pa.record_batch(NULLS))
        end(writer)
        yield address


def _plain(value: Any) -> Any:
    """Values as Python's own, without the names of rows."""
    if isinstance(value, (tuple, list)):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return bytes(value) if isinstance(value, bytearray) else value


def _expected(array: pa.Array) -> list[Any]:
    def plain(value: Any, kind: pa.DataType) -> Any:
        if value is None:
            return None
        if pa.types.is_map(kind):
            return dict(value)
        if pa.types.is_struct(kind):
            return [plain(value[field.name], field.type) for field in kind]
        if isinstance(value, list):
            return [plain(part, kind.value_type) for part in value]
        return value

    return [plain(value, array.type) for value in array.to_pylist()]


def _not_null(frame: DataFrame) -> str:
    """The frame's schema as a user writes it who says that nothing is null."""
    return ", ".join(f"{field.name} {field.dataType.simpleString()} not null" for field in frame.schema)


@pytest.fixture(scope="module", params=["inferred", "given"])
def found(spark: SparkSession, strict: str, request: pytest.FixtureRequest) -> dict[str, tuple[Any, ...]]:
    """Of each column: the values, how many `count` counts, how many `is null` finds."""
    frame = read(spark, strict)
    if request.param == "given":
        frame = spark.read.format("lwmq").schema(_not_null(frame)).load(strict)
    assert all(field.nullable for field in frame.schema)
    rows = frame.collect()
    counts = frame.selectExpr(*(f"count({name})" for name in NULLS)).first()
    nulls = frame.selectExpr(*(f"count_if({name} is null)" for name in NULLS)).first()
    assert counts is not None and nulls is not None
    return {
        name: (_plain([row[name] for row in rows]), counts[place], nulls[place])
        for place, name in enumerate(NULLS)
    }


@pytest.mark.row("P31")
@pytest.mark.parametrize("name", NULLS)
def test_nulls_in_a_field_that_is_declared_not_null_arrive_as_nulls(
    found: dict[str, tuple[Any, ...]], name: str
) -> None:
    values = _expected(NULLS[name])
    nulls = values.count(None)
    assert found[name] == (values, 3 - nulls, nulls)


def test_nulls_below_a_field_that_is_declared_not_null_are_found(spark: SparkSession, strict: str) -> None:
    frame = read(spark, strict)
    assert frame.where("struct_of_null.a is null").count() == 1
    assert frame.selectExpr("count(struct_of_null.a)").first() == (2,)
    assert frame.where("exists(list_of_null, x -> x is null)").count() == 1
    assert frame.where("map_contains_key(map_of_null, 'b') and map_of_null['b'] is null").count() == 1
    assert frame.where("k is null").select("k").collect() == [(None,)]
    assert frame.selectExpr("sum(size(filter(deep, x -> x is null)))").first() == (1,)
    assert frame.groupBy("text").count().count() == 3
    ordered = frame.orderBy("k").select("k").collect()
    assert [row.k for row in ordered] == [None, 1, 3]


def test_a_map_with_a_null_key_is_refused_by_name(spark: SparkSession, ipc: str) -> None:
    keys = pa.array(["a", None])
    with kept(ipc):
        writer = lwmq.open_writer(
            ipc,
            pa.schema([("m", pa.map_(pa.string(), pa.int64())), ("n", pa.int64())]),
            role="client",
            retain="all",
            linger=0,
        )
        entries = pa.StructArray.from_arrays([keys, pa.array([1, 2])], names=["key", "value"])
        lists = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), entries)
        batch = pa.record_batch({"m": lists, "n": pa.array([7])})  # the bytes of a map
        publish_unchecked(writer, batch)
        end(writer)
        assert [row.n for row in read(spark, ipc).select("n").collect()] == [7]
        for what in ("m", "map_keys(m)", "m['a']"):
            with pytest.raises(Exception, match="LWMQ_SCHEMA: field m: a map has a null key in entry 1 of 2"):
                read(spark, ipc).selectExpr(what).collect()


def test_a_variant_without_its_value_is_refused_by_name(spark: SparkSession, ipc: str) -> None:
    parts = [
        pa.field("value", pa.binary(), False),
        pa.field("metadata", pa.binary(), False, {"variant": "true"}),
    ]
    one = pa.array([b"\x0c\x01", None, None])
    empty = pa.array([b"\x01\x00\x00"] * 3)
    struct = pa.StructArray.from_arrays([one, empty], fields=parts, mask=pa.array([False, True, False]))
    with kept(ipc):
        schema = pa.schema([("v", pa.struct(parts)), ("n", pa.int64())])
        writer = lwmq.open_writer(ipc, schema, role="client", retain="all", linger=0)
        publish_unchecked(writer, pa.record_batch({"v": struct, "n": pa.array([1, 2, 3])}))
        end(writer)
        frame = read(spark, ipc)
        assert frame.where("n < 3").selectExpr("to_json(v)").collect() == [("1",), (None,)]
        with pytest.raises(Exception, match=r"LWMQ_SCHEMA: field v\.value: null in a variant"):
            frame.selectExpr("to_json(v)").collect()


def test_spark_appends_to_a_stream_that_takes_no_nulls_and_reads_it_as_one_that_may_have_some(
    spark: SparkSession, ipc: str
) -> None:
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), pa.field("s", pa.string(), nullable=False)]
    )
    with kept(ipc), lwmq.open_writer(ipc, schema, role="client", retain="all", linger=0) as writer:
        writer.write(pa.table({"id": [7], "s": ["seven"]}))
        frame = spark.range(0, 2, 1, 1).selectExpr("id", "if(id < 9, string(id), null) s")
        assert [field.nullable for field in frame.schema] == [False, True]
        frame.write.format("lwmq").mode("append").save(ipc)
        end(writer)
        again = read(spark, ipc)
        assert [field.nullable for field in again.schema] == [True, True]
        assert sorted(tuple(row) for row in again.collect()) == [(0, "0"), (1, "1"), (7, "seven")]


def _given(spark: SparkSession, address: str, schema: str) -> DataFrame:
    return spark.read.format("lwmq").schema(schema).load(address)


NESTED = pa.table(
    {
        "Id": pa.array([1, 2], pa.int64()),
        "s": pa.array(
            [{"A": 1, "b": "x", "Deep": {"c": 0.5, "d": 5}}, None],
            pa.struct(
                [
                    ("A", pa.int32()),
                    ("b", pa.string()),
                    ("Deep", pa.struct([("c", pa.float64()), ("d", pa.int8())])),
                ]
            ),
        ),
        "list": pa.array(
            [[{"a": 1, "b": "x"}, None], []], pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))
        ),
        "map": pa.array(
            [[("k", {"a": 1, "b": "x"})], None],
            pa.map_(pa.string(), pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ),
    }
)


@pytest.fixture(scope="module")
def nested(spark: SparkSession) -> Iterator[str]:
    address = "ipc://spark-nested"
    with kept(address):
        writer = lwmq.open_writer(address, NESTED.schema, role="client", retain="all", linger=0)
        writer.write(NESTED)
        end(writer)
        yield address


@pytest.mark.parametrize(
    "schema,rows",
    [
        ("s struct<b string, a int>", [[["x", 1]], [None]]),
        ("s struct<deep struct<D tinyint>>", [[[[5]]], [None]]),
        ("s struct<deep struct<d tinyint, c double>, b string>", [[[[5, 0.5], "x"]], [None]]),
        ("list array<struct<b string, a int>>", [[[["x", 1], None]], [[]]]),
        ("list array<struct<b string>>", [[[["x"], None]], [[]]]),
        ("map map<string, struct<b string, a int>>", [[{"k": ["x", 1]}], [None]]),
        ("map map<string, struct<b string>>, id bigint", [[{"k": ["x"]}, 1], [None, 2]]),
        ("iD bigint not null, S struct<B string not null> not null", [[1, ["x"]], [2, None]]),
    ],
)
def test_a_schema_may_name_a_part_of_a_struct_in_another_order_and_case(
    spark: SparkSession, nested: str, schema: str, rows: list[Any]
) -> None:
    frame = _given(spark, nested, schema)
    assert frame.schema.simpleString().lower() == f"struct<{_simple(schema)}>"
    assert _plain([tuple(row) for row in frame.collect()]) == rows


def _simple(schema: str) -> str:
    """As Spark writes it, in small letters."""
    from pyspark.sql.types import _parse_datatype_string

    return str(_parse_datatype_string(schema).simpleString())[len("struct<") : -1].lower()


def test_fields_of_a_schema_that_was_given_are_pruned_as_well(spark: SparkSession, nested: str) -> None:
    frame = _given(spark, nested, "S struct<DEEP struct<D tinyint, c double>, a int>, ID bigint")
    assert [row[0] for row in frame.select("s.deep.d").collect()] == [5, None]
    assert [tuple(row) for row in frame.selectExpr("id", "s.a", "s.DEEP.C").collect()] == [
        (1, 1, 0.5),
        (2, None, None),
    ]
    assert frame.where("s.a = 1").selectExpr("_seq", "_partition", "Id").collect() == [(0, 0, 1)]


def test_a_metadata_column_is_hidden_by_a_field_of_the_table_alone(spark: SparkSession, ipc: str) -> None:
    with kept(ipc):
        _unread(ipc, pa.table({"k": [7], "_seq": ["mine"]}))
        assert read(spark, ipc).select("_seq").collect() == [("mine",)]
        assert _given(spark, ipc, "_SEQ string").select("_seq", "_partition").collect() == [("mine", 0)]
        assert _given(spark, ipc, "k bigint").select("_seq", "k").collect() == [(0, 7)]


def test_names_must_agree_in_case_where_the_session_is_case_sensitive(
    spark: SparkSession, nested: str
) -> None:
    spark.conf.set("spark.sql.caseSensitive", True)
    try:
        for schema, text in (
            ("id bigint", "the schema given has a field id BIGINT, but lwmq .* has only Id, s, list, map"),
            ("s struct<a int>", "the schema given has a field s.a INT, but s in lwmq .* has only A, b, Deep"),
            (
                "s struct<Deep struct<C double>>",
                "a field s.Deep.C DOUBLE, but s.Deep in lwmq .* has only c, d",
            ),
        ):
            with pytest.raises(Exception, match=f"LWMQ_SCHEMA: .*{text}"):
                _given(spark, nested, schema).collect()
        assert [row.Id for row in _given(spark, nested, "Id bigint").collect()] == [1, 2]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.parametrize(
    "schema,text",
    [
        (
            "s struct<a int, e int>",
            "the schema given has a field s.e INT, but s in lwmq .* has only A, b, Deep",
        ),
        ("s struct<a string>", "field s.a is INT in lwmq .*, but STRING in the schema given"),
        ("list array<struct<a bigint>>", "field list.element.a is INT in lwmq .*, but BIGINT"),
        ("map map<string, struct<c int>>", "field map.value.c INT, but map.value in lwmq .* has only a, b"),
        ("map map<int, struct<a int>>", "field map.key is STRING in lwmq .*, but INT"),
        ("s array<int>", r"field s is STRUCT<A: INT, .* in lwmq .*, but ARRAY<INT>"),
    ],
)
def test_what_a_nested_schema_asks_for_in_vain_is_named_with_its_path(
    spark: SparkSession, nested: str, schema: str, text: str
) -> None:
    with pytest.raises(Exception, match=f"LWMQ_SCHEMA: .*{text}"):
        _given(spark, nested, schema).collect()


def _unread(address: str, table: pa.Table) -> None:
    """One batch at `address`, which is kept; it ends there."""
    writer = lwmq.open_writer(address, table.schema, role="client", retain="all", linger=0)
    writer.write(table)
    end(writer)


def test_of_two_names_that_differ_in_case_the_exact_one_is_read(spark: SparkSession, ipc: str) -> None:
    with kept(ipc):
        _unread(ipc, pa.table({"a": [1], "A": [2], "s": [{"b": 3, "B": 4}]}))
        assert read(spark, ipc).collect() == [(1, 2, (3, 4))]
        assert _given(spark, ipc, "A bigint").collect() == [(2,)]
        assert _given(spark, ipc, "s struct<B bigint>").collect() == [((4,),)]
        spark.conf.set("spark.sql.caseSensitive", True)
        try:
            assert read(spark, ipc).selectExpr("A", "s.b").collect() == [(2, 3)]
        finally:
            spark.conf.unset("spark.sql.caseSensitive")


def test_two_fields_of_one_name_are_refused_by_name_and_hinder_nobody_else(
    spark: SparkSession, ipc: str
) -> None:
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    outer = pa.StructArray.from_arrays([twice, pa.array([3])], names=["twice", "good"])
    table = pa.Table.from_arrays(
        [outer, pa.array([4]), pa.array([5]), pa.array([6])], names=["s", "x", "x", "n"]
    )
    with kept(ipc):
        _unread(ipc, table)
        assert read(spark, ipc).selectExpr("n", "s.good").collect() == [(6, 3)]
        for schema, text in (
            ("s struct<twice struct<a bigint>>", "field s.twice: .* a struct with two fields named a"),
            ("x bigint", r"field x may be each of the fields 1 \(x\), 2 \(x\) in lwmq"),
        ):
            with pytest.raises(Exception, match=f"LWMQ_SCHEMA: {text}"):
                _given(spark, ipc, schema).collect()
        with pytest.raises(Exception, match=r"LWMQ_SCHEMA: field s\.twice: "):
            read(spark, ipc).select("s").collect()


@pytest.mark.parametrize(
    "what,name",
    [
        ("id, id", "id"),
        ("named_struct('a', id, 'a', id) s", "s.a"),
        ("array(named_struct('b', named_struct('a', id, 'a', id))) l", "l.element.b.a"),
    ],
)
def test_two_fields_of_one_name_are_not_written(spark: SparkSession, ipc: str, what: str, name: str) -> None:
    with kept(ipc), pytest.raises(Exception, match=f"LWMQ_SCHEMA: .*two fields are named {name}"):
        spark.sql(f"select {what} from range(2)").write.format("lwmq").mode("append").save(ipc)


def test_a_dataframe_whose_names_differ_in_case_is_appended(spark: SparkSession, ipc: str) -> None:
    with kept(ipc):
        for name in ("Id", "iD"):
            frame = spark.sql(f"select id {name}, named_struct('{name}', id) s from range(0, 1, 1, 1)")
            frame.write.format("lwmq").mode("append").option("retain", "all").save(ipc)
        assert read(spark, ipc).collect() == [(0, (0,))] * 2
        spark.conf.set("spark.sql.caseSensitive", True)
        try:
            with pytest.raises(
                Exception, match=r"LWMQ_SCHEMA: .*field 0 is Id .* and iD BIGINT in the DataFrame"
            ):
                frame.write.format("lwmq").mode("append").save(ipc)
        finally:
            spark.conf.unset("spark.sql.caseSensitive")


def _union() -> pa.Array:
    types = pa.array([0, 1], pa.int8())
    return pa.UnionArray.from_sparse(types, [pa.array([1, 2]), pa.array(["a", "b"])])


UNREADABLE = pa.Table.from_arrays(
    [
        pa.array([1, 2]),
        _union(),
        pa.array(["x", "y"]),
        pa.StructArray.from_arrays(
            [pa.array([3, 4]), _union(), pa.array(["z", None])], names=["a", "bad", "c"]
        ),
        pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), _union()),
        pa.array([decimal.Decimal(1), None], pa.decimal256(50, 2)),
        pa.array([5, 6]),
    ],
    names=["k", "bad", "text", "s", "list", "wide", "n"],
)


@pytest.fixture(scope="module")
def unreadable(spark: SparkSession) -> Iterator[str]:
    address = "ipc://spark-unreadable"
    with kept(address):
        _unread(address, UNREADABLE)
        yield address


@pytest.mark.row("P31")
def test_a_column_that_spark_has_no_type_for_hinders_no_other_column(
    spark: SparkSession, unreadable: str
) -> None:
    frame = read(spark, unreadable)
    assert dict(frame.dtypes) == {
        "k": "bigint",
        "bad": "void",
        "text": "string",
        "s": "struct<a:bigint,bad:void,c:string>",
        "list": "void",
        "wide": "void",
        "n": "bigint",
    }
    assert frame.select("k", "text", "n").collect() == [(1, "x", 5), (2, "y", 6)]
    assert frame.drop("bad", "list", "s", "wide").collect() == [(1, "x", 5), (2, "y", 6)]
    assert frame.selectExpr("s.a", "s.c").collect() == [(3, "z"), (4, None)]
    assert frame.count() == 2
    given = _given(spark, unreadable, "n bigint, s struct<c string, a bigint>, k bigint")
    assert given.collect() == [(5, ("z", 3), 1), (6, (None, 4), 2)]
    assert "Union" in frame.schema["bad"].metadata["comment"]


@pytest.mark.parametrize(
    "asked,name",
    [
        ("*", "bad"),
        ("bad", "bad"),
        ("cast(bad as string) b", "bad"),
        ("bad is null b", "bad"),
        ("count(bad) n", "bad"),
        ("coalesce(bad, 1) b", "bad"),
        ("s", "s.bad"),
        ("s.bad", "s.bad"),
        ("list", "list.element"),
        ("wide", "wide"),
    ],
)
def test_a_column_that_spark_has_no_type_for_is_refused_when_it_is_asked_for(
    spark: SparkSession, unreadable: str, asked: str, name: str
) -> None:
    text = f"LWMQ_SCHEMA: field {name}: Spark has no type for .*select the other columns"
    with pytest.raises(Exception, match=text) as caught:
        read(spark, unreadable).selectExpr(asked).collect()
    assert isinstance(lwmq.error_of(caught.value), lwmq.SchemaError)


def test_a_table_of_sql_has_the_columns_that_can_be_read(spark: SparkSession, unreadable: str) -> None:
    name = "table_with_a_union"
    for fields in ("", "(N bigint not null, k bigint, s struct<C string>)"):
        spark.sql(f"create table {name} {fields} using lwmq options (uri '{unreadable}')")
        try:
            assert spark.sql(f"select n, s.c from {name}").collect() == [(5, "z"), (6, None)]
            if not fields:
                with pytest.raises(Exception, match="LWMQ_SCHEMA: field bad: Spark has no type for Union"):
                    spark.sql(f"select bad from {name}").collect()
        finally:
            spark.sql(f"drop table {name}")


def test_a_schema_that_asks_for_what_spark_has_no_type_for_is_refused(
    spark: SparkSession, unreadable: str
) -> None:
    for schema, name in (("k bigint, bad string", "bad"), ("s struct<bad int>", "s.bad")):
        with pytest.raises(Exception, match=f"LWMQ_SCHEMA: field {name}: Spark has no type for Union"):
            _given(spark, unreadable, schema).collect()


@pytest.mark.row("P31")
def test_each_column_keeps_the_type_that_spark_gave_it(spark: SparkSession, ipc: str) -> None:
    """A geometry is a struct for Arrow; beside it every other column lost its type, too."""
    columns = {
        "name": "cast(id as string) collate UNICODE_CI",
        "years": "interval '3' year",
        "hours": "interval '3' hour",
        "time": "time'12:30:00'",
        "words": "array(cast(id as string) collate UTF8_LCASE)",
        "by_name": "map('a' collate UTF8_LCASE, interval '2' month)",
        "deep": "named_struct('point', st_geomfromwkb(X'0101000000000000000000F03F0000000000000040'), "
        "'name', 'x' collate UNICODE_CI)",
        "money": "cast(1.5 as decimal(7, 2))",
        "v": "parse_json('1')",
    }
    point = "st_geomfromwkb(X'0101000000000000000000F03F0000000000000040') point"
    frame = spark.range(0, 2, 1, 1).selectExpr(
        "id", point, *(f"{sql} {name}" for name, sql in columns.items())
    )
    with kept(ipc):
        frame.write.format("lwmq").mode("append").option("retain", "all").save(ipc)
        again = read(spark, ipc)
        types, before = dict(again.dtypes), dict(frame.dtypes)
        plain = "struct<srid:int,wkb:binary>"
        assert types.pop("point") == plain
        assert types.pop("deep") == f"struct<point:{plain},name:string collate UNICODE_CI>"
        assert types == {name: kind for name, kind in before.items() if name not in ("point", "deep")}
        assert again.drop("time").where("name = '1'").count() == 1
        shown = ["id", "string(years)", "hours", "string(time)", "words", "string(by_name)", "money"]
        shown += ["deep.name", "to_json(v)"]
        assert again.selectExpr(*shown).collect() == frame.selectExpr(*shown).collect()


def test_columns_that_a_process_outside_spark_picks_and_sends_on_keep_their_types(
    spark: SparkSession, ipc: str
) -> None:
    frame = spark.range(0, 1, 1, 1).selectExpr("id", "'x' collate UNICODE_CI name", "interval '3' hour hours")
    onwards = f"{ipc}-onwards"
    with kept(ipc), kept(onwards):
        frame.write.format("lwmq").mode("append").option("retain", "all").save(ipc)
        with lwmq.open_reader(ipc, role="client", timeout=20.0, linger=0) as reader:
            _unread(onwards, reader.read_all().select(["hours", "name"]).replace_schema_metadata(None))
        assert dict(read(spark, onwards).dtypes) == {
            "hours": "interval hour",
            "name": "string collate UNICODE_CI",
        }


def test_a_user_defined_type_may_be_null_and_comes_back_beside_a_geometry(
    spark: SparkSession, ipc: str
) -> None:
    """What it is stored as has fields that are not null."""
    from pyspark.ml.linalg import Vectors

    rows = [(1, Vectors.dense([1.0, 2.0])), (2, Vectors.sparse(3, [1], [5.0])), (3, None)]
    point = "st_geomfromwkb(X'0101000000000000000000F03F0000000000000040') point"
    frame = spark.createDataFrame(rows, ["id", "v"]).coalesce(1)
    with kept(ipc):
        sent = frame.selectExpr("id", "v", point, "array(v) vs")
        sent.write.format("lwmq").mode("append").option("retain", "all").save(ipc)
        found = read(spark, ipc).select("id", "v", "vs")
        assert [kind for _, kind in found.dtypes] == ["bigint", "vector", "array<vector>"]
        assert found.collect() == [(number, v, [v]) for number, v in rows]
