"""Names that cannot cross to the library are refused in words, wherever one is given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark import modules
from lwmq_spark.arrow.endpoint import describe
from lwmq_spark.channel.transports import limits

SCHEMA = pa.schema([("n", pa.int64())])
HALF, NUL = "a\ud800b", "a\0b"
WHY = [(HALF, "has half a surrogate pair at {}, which is no character"), (NUL, "has a NUL byte at {}")]

ADDRESSED: dict[str, Callable[[str], Any]] = {
    "channel": lambda address: lwmq.Channel(address, linger=0),
    "further": lambda address: lwmq.Channel(["ipc://good", address], linger=0),
    "listener": lwmq.Listener,
    "writer": lambda address: lwmq.open_writer(address, SCHEMA),
    "reader": lwmq.open_reader,
    "endpoint": lwmq.Endpoint,
    "describe": describe,
    "limits": limits,
}


FORMS = ["ipc://{}", "ipc:///tmp/{}", "loop://{}", "ipc://x?name={}"]


@pytest.mark.parametrize(
    ("what", "form", "name", "why"),
    [(what, FORMS[n % 4], *WHY[n // 4 % 2]) for n, what in enumerate(ADDRESSED)]
    + [("channel", form, *why) for form in FORMS for why in WHY if (form, why) != (FORMS[0], WHY[0])]
    + [("describe", FORMS[0], *WHY[0])],
)
def test_an_address_with_what_is_no_character_is_refused_in_words(
    what: str, form: str, name: str, why: str
) -> None:
    address = form.format(name)
    with pytest.raises(lwmq.AddressError) as caught:
        ADDRESSED[what](address)
    assert f"address {address!r} {why.format(address.index(name) + 1)}" in str(caught.value)


NAMED: dict[str, Callable[[str, str], Any]] = {
    "reader": lambda address, name: lwmq.open_reader(address, name=name, role="server"),
    "job": lambda address, name: lwmq.open_writer(address, SCHEMA, job=name, role="server"),
}


@pytest.mark.parametrize("what", NAMED)
def test_a_name_that_peers_cannot_hear_is_refused_with_its_numbers(ipc: str, what: str) -> None:
    for name, why in WHY:
        with pytest.raises(ValueError, match=what) as caught:
            NAMED[what](ipc, name)
        assert why.format(1) in str(caught.value)
    for name, size in (("x" * 256, 256), ("é" * 128, 256), ("", 0)):
        with pytest.raises(ValueError, match=f"{what} .* has {size} bytes in UTF-8: 1 to 255 are possible"):
            NAMED[what](ipc, name)


def test_the_longest_name_is_taken(ipc: str) -> None:
    name = "é" * 127 + "x"
    with lwmq.open_reader(ipc, name=name, role="server", linger=0) as reader:
        assert name in repr(reader)


def test_names_in_options_and_surroundings_are_refused_in_words(
    ipc: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(lwmq.AddressError, match="has 300 bytes in UTF-8"):
        lwmq.open_reader(f"{ipc}?name={'x' * 300}")
    monkeypatch.setenv("LWMQ_NAME", "x" * 300)
    with pytest.raises(lwmq.LwmqError, match=r"LWMQ_NAME: reader .* has 300 bytes"):
        lwmq.open_reader(ipc)
    monkeypatch.delenv("LWMQ_NAME")
    monkeypatch.setenv("LWMQ_CONF", str(tmp_path))
    (tmp_path / "lwmq.toml").write_text(f"[stream]\nname = '{'x' * 300}'\n")
    with pytest.raises(lwmq.LwmqError, match=r"lwmq\.toml: \[stream\] name: reader .* has 300 bytes"):
        lwmq.open_reader(ipc)


@pytest.mark.parametrize(("name", "why"), WHY)
def test_filters_patterns_and_groups_are_refused_in_words(ipc: str, name: str, why: str) -> None:
    text = why.format(1)
    with lwmq.Channel(f"filters+{ipc}", "server", linger=0) as channel:
        queue = channel.send_queue("multi_unbounded")
        for call in (
            lambda: channel.add_filter(name),
            lambda: lwmq.Router().add(name, queue),
            lambda: lwmq.Router().add("a", queue, group=name),
        ):
            with pytest.raises(ValueError, match=text):
                call()


def test_a_path_ends_at_no_nul_byte(tmp_path: Path) -> None:
    key = tmp_path / "key"
    with pytest.raises(ValueError, match=r"path .* has a NUL byte"):
        modules.make_key(f"{key}\0more")
    assert not key.exists()
    with pytest.raises(ValueError, match=r"path .* has a NUL byte"):
        modules.verify("a\0b")
