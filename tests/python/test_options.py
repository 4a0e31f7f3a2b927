"""Addresses with options, and the order in which settings are looked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lwmq_spark as lwmq
from lwmq_spark.channel.settings import read_settings
from lwmq_spark.options import (
    CHANNEL,
    SETTINGS,
    STREAM,
    Address,
    keys_of,
    parse_address,
    parse_duration,
    read,
    resolve,
)


@pytest.fixture(autouse=True)
def no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for key in SETTINGS:
        monkeypatch.delenv(f"LWMQ_{key.upper()}", raising=False)
    monkeypatch.delenv("LWMQ_CONF", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_an_address_is_apart_from_its_options() -> None:
    found = parse_address("ipc://flights:7?buffer_bytes=4MiB&buffers=16&timeout=5s")
    assert found == Address("ipc://flights:7", {"buffer_bytes": 4 << 20, "buffers": 16, "timeout": 5.0})


@pytest.mark.row("L13")
def test_what_follows_the_scheme_is_left_to_the_provider() -> None:
    for text in ("ipc:///tmp/a b#c", "pgm://eth0;239.1.1.1:5555", "vsock://2:77", "x+y://%%% "):
        assert parse_address(text).text == text


@pytest.mark.parametrize(
    ("address", "says"),
    [
        (
            "ipc://a?bufers=3",
            "'bufers' of 'ipc://a?bufers=3' is unknown: did you mean 'buffers'?",
        ),
        ("ipc://a?speed=3", "'speed' of 'ipc://a?speed=3' is unknown; allowed are buffer_bytes, buffers, "),
        ("ipc://a?windowBytes=3", "did you mean 'window_bytes'?"),
        ("ipc://a?secure_erase=true", "'secure_erase' of 'ipc://a?secure_erase=true' is none of a stream's"),
        ("ipc://a?buffers", "has no value"),
        ("ipc://a?buffers=3&buffers=4", "twice"),
        ("ipc://a?buffer_bytes=4XB", "'4XB' is not a size: write 512, 64KiB"),
        ("ipc://a?timeout=5q", "'5q' is not a duration"),
        ("ipc://a?retain=some", "'some' is none of until_acked, all, none"),
        ("ipc://a?retain=until_acket", "none: did you mean 'until_acked'?"),
        ("ipc://a?partitions=0", "'partitions' of 'ipc://a?partitions=0': '0' is out of bounds: 1 to 16384"),
        ("ipc://a?window_bytes=100TiB", "for the machine has no more bytes of memory"),
        ("ipc://a,ipc://b", "one is meant: a stream has one, a channel takes several as a list"),
        ("ipc://a?", "ends in '?'"),
        ("flights", "'flights': the address has no scheme: did you mean 'ipc://flights'?"),
        ("://x", "has no scheme"),
    ],
)
def test_a_wrong_address_is_an_address_error_that_names_the_key(address: str, says: str) -> None:
    with pytest.raises(lwmq.AddressError) as caught:
        parse_address(address)
    assert says in str(caught.value)


def test_an_address_that_is_no_text_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="an address is a str such as"):
        parse_address(b"ipc://flights")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512", 512),
        ("64k", 65536),
        ("64KB", 64000),
        ("4m", 4 << 20),
        ("4MB", 4_000_000),
        ("64KiB", 65536),
        ("4MiB", 4 << 20),
        ("1GiB", 1 << 30),
        ("64KB", 64000),
        ("1.5 MiB", 3 << 19),
        (7, 7),
    ],
)
def test_sizes(text: object, size: int) -> None:
    assert read("staging_bytes", text) == size


@pytest.mark.parametrize("text", ["", "MiB", "-3", "4 MiBs", "0.3B", -1, True, 2.5, None])
def test_refuses_what_is_no_size(text: object) -> None:
    with pytest.raises(ValueError, match=r"size|whole number of bytes"):
        read("staging_bytes", text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("100ms", 0.1), ("5s", 5.0), ("2m", 120.0), ("1h", 3600.0), ("3", 3.0), (0.25, 0.25), ("forever", None)],
)
def test_durations(text: object, seconds: float | None) -> None:
    assert parse_duration(text) == seconds
    assert parse_duration(float("inf")) is None


def test_words_are_taken_in_any_case() -> None:
    address = "ipc://a?role=Client&retain=ALL&delivery=Task&trust=VERIFY&stall=FOREVER"
    assert parse_address(address).options == {
        "role": "client", "retain": "all", "delivery": "task", "trust": "verify", "stall": None,
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "ms", "-1s", -1, True, float("nan"), [1]])
def test_refuses_what_is_no_duration(text: object) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@given(st.integers(0, 1 << 40))
def test_a_number_of_bytes_is_itself_in_every_spelling(size: int) -> None:
    assert all(read("staging_bytes", same) == size for same in (size, str(size), f"{size}B"))
    assert read("staging_bytes", f"{size}KiB") == size << 10


def test_counts_and_flags() -> None:
    assert read("writers", "16") == 16
    assert read("follow", "true") is read("follow", True) is True
    assert read("follow", "0") is False
    for wrong in ("x", "-1", 1.5, True):
        with pytest.raises(ValueError, match="count"):
            read("writers", wrong)
    with pytest.raises(ValueError, match="neither true nor false"):
        read("follow", "maybe")


def test_argument_wins_over_address_over_environment_over_conf_file_over_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def found(address: str, argument: object = None) -> object:
        return resolve(parse_address(address), "stream", "buffer_bytes", argument, 1)

    assert found("ipc://a") == 1
    conf = tmp_path / "config" / "lwmq" / "lwmq.toml"
    conf.parent.mkdir(parents=True)
    conf.write_text('[stream]\nbuffer_bytes = "2KiB"\n[channel]\nbuffer_bytes = 9\n')
    assert found("ipc://a") == 2048
    named = tmp_path / "lwmq.toml"
    named.write_text("[stream]\nbuffer_bytes = 3\n")
    monkeypatch.setenv("LWMQ_CONF", str(named))
    assert found("ipc://a") == 3
    monkeypatch.setenv("LWMQ_CONF", str(tmp_path))
    assert found("ipc://a") == 3
    monkeypatch.setenv("LWMQ_BUFFER_BYTES", "4")
    assert found("ipc://a") == 4
    assert found("ipc://a?buffer_bytes=5") == 5
    assert found("ipc://a?buffer_bytes=5", "6KiB") == 6144


def test_buffers_of_one_direction_win_over_those_of_both_of_the_same_source(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    def buffers(query: str, argument: Any = None) -> tuple[int, int]:
        settings = read_settings(parse_address(f"{address}{query}", CHANNEL), buffers=argument)
        return settings.options.buffers_send, settings.options.buffers_receive

    assert buffers("?buffers=9") == (9, 9)
    assert buffers("?buffers=9&buffers_send=3") == (3, 9)
    assert buffers("?buffers_receive=0&buffers_send=3") == (3, 0)
    assert buffers("?buffers_send=3", 5) == (5, 5)
    assert buffers("?buffers_send=3", (5, 6)) == (5, 6)
    monkeypatch.setenv("LWMQ_BUFFERS_SEND", "7")
    assert buffers("") == (7, 0)
    assert buffers("?buffers=9") == (9, 9)
    with (
        lwmq.Channel(f"{address}?buffers=4", "server", linger=0),
        lwmq.Channel(f"{address}-2?buffers_send=5&buffers_receive=6", "server", linger=0),
        lwmq.Channel([f"{address}?buffers=4", f"{address}-2?buffers_send=6&buffers_receive=5"]) as client,
    ):
        client.wait_connected(60)
        assert client.statistics.buffers_free == 4 + 6


def test_a_wrong_setting_says_where_it_stands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    address = parse_address("ipc://a")
    with pytest.raises(ValueError, match="timeout: 'soon' is not a duration"):
        resolve(address, "stream", "timeout", "soon", None)
    monkeypatch.setenv("LWMQ_TIMEOUT", "soon")
    with pytest.raises(lwmq.LwmqError, match="environment variable LWMQ_TIMEOUT"):
        resolve(address, "stream", "timeout", None, None)
    monkeypatch.delenv("LWMQ_TIMEOUT")
    conf = tmp_path / "lwmq.toml"
    monkeypatch.setenv("LWMQ_CONF", str(conf))
    with pytest.raises(lwmq.LwmqError, match="no such file"):
        parse_address("ipc://a")
    conf.write_text("[stream]\ntimeuot = 3\n")
    with pytest.raises(
        lwmq.LwmqError, match=r"lwmq.toml: \[stream\] timeuot is unknown: did you mean 'timeout'"
    ):
        parse_address("ipc://a")
    conf.write_text("[stream]\nsecure_erase = true\n")
    with pytest.raises(lwmq.LwmqError, match=r"\[stream\] secure_erase is unknown; allowed are buffer_bytes"):
        parse_address("ipc://a")
    conf.write_text("[streams]\ntimeout = 3\n")
    with pytest.raises(lwmq.LwmqError, match=r"lwmq.toml: \[streams\] is unknown: did you mean \[stream\]\?"):
        parse_address("ipc://a")
    conf.write_text("[stream]\npartitions = 0\n")
    with pytest.raises(lwmq.LwmqError, match=r"\[stream\] partitions: '0' is out of bounds: 1 to 16384"):
        parse_address("ipc://a")
    conf.write_text("[stream]\nbuffer_bytes = 'many'\n")
    with pytest.raises(lwmq.LwmqError, match=r"\[stream\] buffer_bytes: 'many' is not a size"):
        parse_address("ipc://a")
    conf.write_text("[stream\n")
    with pytest.raises(lwmq.LwmqError, match=r"lwmq\.toml"):
        parse_address("ipc://a")


def test_a_variable_of_the_environment_with_a_slip_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LWMQ_OF_SOMEBODY_ELSE", "1")
    parse_address("ipc://a")
    monkeypatch.setenv("LWMQ_BUFER_BYTES", "4MiB")
    with pytest.raises(lwmq.LwmqError, match="LWMQ_BUFER_BYTES is unknown: did you mean LWMQ_BUFFER_BYTES"):
        lwmq.Channel("ipc://a")


@pytest.mark.parametrize(
    ("key", "value"),
    [("partitions", 0), ("readers", 0), ("writers", 0), ("credit", 0), ("buffers", 0), ("buffer_bytes", 0),
     ("partitions", 1 << 20), ("credit", 1 << 20), ("window_bytes", "100TiB"), ("buffers", 4001)],
)  # fmt: skip
def test_a_number_that_cannot_be_is_refused_where_it_is_said(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{key}: '{value}' is out of bounds: 1 to [0-9]+ are possible"):
        resolve(parse_address("ipc://a"), "stream", key, value, None)
    with pytest.raises(lwmq.AddressError, match=f"option '{key}' of .*: '{value}' is out of bounds: 1 to "):
        parse_address(f"ipc://a?{key}={value}")


def test_the_conf_file_of_the_project_can_be_read() -> None:
    from lwmq_spark.options import load_conf

    path = Path(__file__).resolve().parents[2] / "conf" / "lwmq.toml"
    conf = load_conf(path, 0)
    one_way = {"buffers_send", "buffers_receive"}  # where they differ from `buffers`
    assert set(conf["channel"]) == set(keys_of(CHANNEL)) - one_way
    # One of a writer and one of a reader; one of each reader's own; in the place of window_bytes.
    have_no_value = {"linger", "name", "buffers", "stream"}
    assert set(conf["stream"]) == set(keys_of(STREAM)) - have_no_value
    with (
        lwmq.Channel("loop://built-in-values", "server", linger=0),
        lwmq.Channel("loop://built-in-values", "client", linger=0) as client,
    ):
        client.wait_connected(60)
        assert client.statistics.buffers_free == conf["channel"]["buffers"]
