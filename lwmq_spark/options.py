"""Addresses with options, and where a setting comes from.

    ipc://flights?buffer_bytes=4MiB&buffers=16&timeout=5s

The part before `?` belongs to the provider of the scheme, which alone parses it. The part behind it is a list
of `key=value` pairs. The library has the table of all keys (`lwmq_query_setting`) and reads the values, so
that a word means the same in Python, in Spark's options and in C. Writers and readers take the keys of
streams, and channels those of channels; any other key is an `AddressError`. A provider has further keys, such
as the file of a certificate: they stay in the address, where the library reads them.

A setting is looked for in this order, and the first place that has it wins:

    1. the argument of the call
    2. the option of the address
    3. the environment: LWMQ_ and the key in capitals, such as LWMQ_BUFFER_BYTES=8MiB
    4. the conf file: [stream] or [channel] of $LWMQ_CONF, else of ~/.config/lwmq/lwmq.toml
    5. the default

Sizes are written 512, 64KiB, 4MiB, 1GiB (powers of 1024; also 64k, 4m, 1g, as in Spark) or 64KB, 4MB, 1GB
(powers of 1000). Durations are written 100ms, 5s, 2m, 1h or as a number of seconds.
"""

from __future__ import annotations

import math
import operator
import os
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal

from lwmq_spark._ffi import ffi, lib, raise_status, sized, text_of
from lwmq_spark.errors import AddressError, LwmqError

Role = Literal["auto", "server", "client"]
Retain = Literal["until_acked", "all", "none"]
Delivery = Literal["live", "task", "job"]
Trust = Literal["user", "verify"]

# Objects that take options of an address.
TRANSPORT: int = lib.LWMQ_TAKEN_BY_TRANSPORT  # each further transport of a channel
CHANNEL: int = lib.LWMQ_TAKEN_BY_CHANNEL
LISTENER: int = lib.LWMQ_TAKEN_BY_LISTENER
STREAM: int = lib.LWMQ_TAKEN_BY_STREAM
PROVIDER: int = lib.LWMQ_TAKEN_BY_PROVIDER  # beside others: the provider of the address


@dataclass(frozen=True, slots=True)
class Setting:
    """A row of the library's table. `kind`: LWMQ_VALUE_*. `words`: the possible values, if they are words."""

    key: str
    kind: int
    words: tuple[str, ...]
    taken_by: int

    def shown(self, number: int, text: str) -> Any:
        """The value that the library has read from `text` as `number`, as Python has it."""
        if self.kind == lib.LWMQ_VALUE_DURATION:
            return _seconds(number)
        if self.kind == lib.LWMQ_VALUE_FLAG:
            return number == 1
        if self.kind == lib.LWMQ_VALUE_WORD:
            return self.words[number]
        return text if self.kind in (lib.LWMQ_VALUE_NAME, lib.LWMQ_VALUE_TEXT) else number


def _settings() -> dict[str, Setting]:
    found: dict[str, Setting] = {}
    row = sized("lwmq_setting")
    while lib.lwmq_query_setting(len(found), row) == lib.LWMQ_OK:
        key = ffi.string(row.key).decode()
        words = () if row.words == ffi.NULL else tuple(ffi.string(row.words).decode().split(", "))
        found[key] = Setting(key, row.kind, words, row.taken_by)
    return found


SETTINGS = _settings()


def keys_of(taken_by: int) -> tuple[str, ...]:
    """The keys that the objects of `taken_by` (CHANNEL, STREAM, ...) take."""
    return tuple(key for key, setting in SETTINGS.items() if setting.taken_by & taken_by)


def _places(key: str) -> dict[str, int]:
    """The words of a setting, with the numbers that lwmq.h gives them."""
    return {word: place for place, word in enumerate(SETTINGS[key].words)}


ROLES = _places("role")
RETAINS = _places("retain")
DELIVERIES = _places("delivery")


def read(key: str, value: object) -> Any:
    """`value`, a number or a text as users write it, as a value of the setting `key`.

    ValueError says what is allowed.
    """
    setting = SETTINGS[key]
    if setting.kind == lib.LWMQ_VALUE_NAME:
        return check_name("reader", value)  # type: ignore[arg-type]
    if setting.kind == lib.LWMQ_VALUE_DURATION:
        return parse_duration(value)
    text = check_text(key, _written(value))
    number = ffi.new("uint64_t *")
    if lib.lwmq_read_setting(key.encode(), text.encode(), number) != lib.LWMQ_OK:
        raise ValueError(text_of())
    return setting.shown(number[0], text)


def parse_duration(value: object) -> float | None:
    """A duration in seconds, from `100ms`, `5s`, `2m`, `1h` or a number. None, like `forever`: no limit.

    ValueError: no duration.
    """
    if value is None:
        return None
    if isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) < math.inf:
        return float(value)
    number = ffi.new("uint64_t *")
    text = check_text("duration", _written(value)).encode()
    if lib.lwmq_read_value(lib.LWMQ_VALUE_DURATION, ffi.NULL, text, number) != lib.LWMQ_OK:
        raise ValueError(text_of())
    return _seconds(number[0])


def _seconds(ns: int) -> float | None:
    return None if ns == (1 << 64) - 1 else ns / 1e9


def _written(value: object) -> str:
    """A number or a flag as users write it, for the library to read."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Real) and not isinstance(value, Integral) and math.isfinite(value):
        return f"{float(value):.9f}".rstrip("0").rstrip(".")
    return "forever" if value == math.inf else str(value)


def unknown(what: str, name: str, names: Collection[str]) -> str:
    """A text for errors: `what` is unknown, and which of `names` was probably meant by `name`."""
    place = nearest(name, names)
    if place is None:
        return f"{what} is unknown; allowed are {', '.join(names)}"
    return f"{what} is unknown: did you mean {place!r}?"


def nearest(name: str, names: Collection[str]) -> str | None:
    """The one of `names` that was probably meant by `name`; None if none is near."""
    place = lib.lwmq_nearest_word(name.encode("utf-8", "replace"), ", ".join(names).encode())
    return None if place < 0 else list(names)[place]


def whole(what: str, value: object, least: int, most: int) -> int:
    """`value` as an int; `what` names it in errors. TypeError: no int. ValueError: not `least` to `most`."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{what} {value!r}: an int is wanted, not {type(value).__name__}") from None
    if not least <= number <= most:
        raise ValueError(f"{what} {number}: {least} to {most} are possible")
    return number


NAME_BYTES_MAX = 255  # of a reader, a job: kNameBytesMax of base/limits.h


def check_text(what: str, text: str) -> str:
    """`text`, if the library can take it; `what` names it in errors. TypeError: no str.

    ValueError: it has a NUL character, at which the library would end it, or half a surrogate pair.
    """
    if not isinstance(text, str):
        hint = ": did you mean .decode()?" if isinstance(text, bytes) else ""
        raise TypeError(f"{what} {text!r}: a str is wanted, not {type(text).__name__}{hint}")
    if (at := text.find("\0")) >= 0:
        raise ValueError(f"{what} {text!r} has a NUL byte at {at}: leave it out")
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise ValueError(
            f"{what} {text!r} has half a surrogate pair at {exc.start}, which is no character: "
            "perhaps it was read from bytes that are not UTF-8"
        ) from None
    return text


def check_name(what: str, name: str) -> str:
    """The same for a name that peers hear. ValueError: also if it is empty or too long."""
    size = len(check_text(what, name).encode())
    if not 1 <= size <= NAME_BYTES_MAX:
        shown = repr(name if size < 80 else name[:60] + "...")
        raise ValueError(f"{what} {shown} has {size} bytes in UTF-8: 1 to {NAME_BYTES_MAX} are possible")
    return name


@dataclass(frozen=True, slots=True)
class Address:
    """An address, split from its options.

    `text` goes to the library, with the name of a stream and the settings of the provider, if any.
    """

    text: str
    options: Mapping[str, Any] = field(default_factory=dict)


def parse_address(address: str, taken_by: int = STREAM) -> Address:
    """Split an address from its options, and read these.

    taken_by: which objects take the options: STREAM, CHANNEL, LISTENER, TRANSPORT, or several of them.
    AddressError names the option, and says what is allowed or was probably meant. LwmqError: a variable
    LWMQ_... of the environment has a misspelt name.
    """
    if not isinstance(address, str):
        hint = ": did you mean .decode()?" if isinstance(address, bytes) else ""
        raise TypeError(f"an address is a str such as 'ipc://flights', not {type(address).__name__}{hint}")
    try:
        check_text("address", address)
    except ValueError as exc:
        raise AddressError(str(exc)) from None
    _check_environment()
    options: dict[str, Any] = {}
    kept: dict[str, str] = {}  # what the library reads
    text = ffi.new("char[]", address.encode())  # the options refer to it
    found = sized("lwmq_address_option")
    while (
        status := lib.lwmq_read_address_option(text, taken_by, len(options) + len(kept), found)
    ) == lib.LWMQ_OK:
        key = ffi.string(found.key).decode()
        value = bytes(ffi.buffer(found.text, found.text_bytes)).decode()
        if key == "stream" or key not in SETTINGS or SETTINGS[key].taken_by & PROVIDER:
            kept[key] = value
        else:
            options[key] = SETTINGS[key].shown(found.value, value)
    if status != lib.LWMQ_E_EMPTY:
        raise_status(status)
    place = address.partition("?")[0]
    for key in keys_of(PROVIDER):
        if key not in kept and _is_taken(place, key, taken_by):
            value = _said("stream" if taken_by == STREAM else "channel", (key,), None)
            if value is not None:
                kept[key] = value
    query = "&".join(f"{key}={value}" for key, value in kept.items())
    return Address(f"{place}?{query}" if query else place, options)


def _is_taken(place: str, key: str, taken_by: int) -> bool:
    """Whether the provider of the address `place` takes the setting `key`."""
    text = ffi.new("char[]", f"{place}?{key}=x".encode())
    found = sized("lwmq_address_option")
    return bool(lib.lwmq_read_address_option(text, taken_by, 0, found) == lib.LWMQ_OK)


def _check_environment() -> None:
    """LwmqError: a variable is not read by anybody, and its name is near to one that is."""
    for name in os.environ:
        if name.startswith("LWMQ_") and name not in _VARIABLES and (meant := nearest(name, _VARIABLES)):
            raise LwmqError(f"environment variable {name} is unknown: did you mean {meant}?")


_OTHER_VARIABLES = ("LWMQ_CONF", "LWMQ_MODULE_PATH", "LWMQ_MODULE_TRUST", "LWMQ_LIBRARY_PATH", "LWMQ_WIRE")
# What an address alone says: neither a variable nor a conf file.
_IN_ADDRESS_ALONE = keys_of(lib.LWMQ_IN_ADDRESS_ALONE)
_VARIABLES = (
    *_OTHER_VARIABLES,
    *(f"LWMQ_{key.upper()}" for key in SETTINGS if key not in _IN_ADDRESS_ALONE),
)


def resolve(
    address: Address,
    section: Literal["stream", "channel"],
    key: str,
    argument: Any,
    default: Any,
    *,
    general: str | None = None,
) -> Any:
    """The value of `key`, by the order of precedence at the head of this file.

    argument: None if it was not given. general: a key that stands for this one in each place that lacks it.
    ValueError: the argument has a wrong value. LwmqError: the environment or the conf file has.
    """
    if argument is not None:
        try:
            return read(key, argument)
        except ValueError as exc:
            raise ValueError(f"{key}: {exc}") from None
    keys = (key,) if general is None else (key, general)
    for key in keys:
        if key in address.options:
            return address.options[key]
    return _said(section, keys, default)


def _said(section: Literal["stream", "channel"], keys: tuple[str, ...], default: Any) -> Any:
    """What the environment or the conf file says of the first of `keys`. LwmqError: it is no value."""
    for key in keys:
        variable = f"LWMQ_{key.upper()}"
        if variable in os.environ:
            try:
                return read(key, os.environ[variable])
            except ValueError as exc:
                raise LwmqError(f"environment variable {variable}: {exc}") from None
    path = conf_path()
    if path is not None:
        table = load_conf(path, path.stat().st_mtime_ns).get(section, {})
        for key in keys:
            if key in table:
                return table[key]
    return default


def conf_path() -> Path | None:
    """The conf file in force: $LWMQ_CONF (a file, or a folder with lwmq.toml), or ~/.config/lwmq/lwmq.toml.

    None: there is none. LwmqError: $LWMQ_CONF names a file that does not exist.
    """
    named = os.environ.get("LWMQ_CONF")
    if named:
        path = Path(named)
        path = path / "lwmq.toml" if path.is_dir() else path
        if not path.is_file():
            raise LwmqError(f"LWMQ_CONF={named}: there is no such file")
        return path
    base = os.environ.get("XDG_CONFIG_HOME")
    try:
        path = (Path(base) if base else Path.home() / ".config") / "lwmq" / "lwmq.toml"
        return path if path.is_file() else None
    except (OSError, RuntimeError):  # a home that is not ours to look into, or none at all
        return None


@lru_cache(maxsize=4)
def load_conf(path: Path, changed_ns: int) -> dict[str, dict[str, Any]]:
    """The tables [stream] and [channel] of a conf file, read and checked.

    changed_ns: the time of the file's last change, so that the cache misses for a changed file.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise LwmqError(f"{path}: {exc}") from None
    sections = {"stream": STREAM, "channel": CHANNEL}
    for table in tables:
        if table not in sections and (meant := nearest(table, (*sections, "spark"))) not in (None, table):
            raise LwmqError(f"{path}: [{table}] is unknown: did you mean [{meant}]?")
    checked: dict[str, dict[str, Any]] = {}
    for section, taken_by in sections.items():
        checked[section] = {}
        keys = tuple(key for key in keys_of(taken_by) if key not in _IN_ADDRESS_ALONE)
        for key, value in tables.get(section, {}).items():
            if key not in keys:
                raise LwmqError(f"{path}: " + unknown(f"[{section}] {key}", key, keys))
            try:
                checked[section][key] = read(key, value)
            except ValueError as exc:
                raise LwmqError(f"{path}: [{section}] {key}: {exc}") from None
    return checked
