"""Addresses with options, and the order in which a setting is looked up.

    ipc://flights?buffer_bytes=4MiB&buffers=16&timeout=5s

The part before `?` belongs to the provider of the scheme, which alone parses it. The part after it is ours:
`key=value` pairs. The library has the table of all keys (`lwmq_query_setting`) and reads the values, so the
same words mean the same in Python, in Spark's options and in C. Writers and readers of streams take the
stream keys, a channel takes the channel keys; any other key is an `AddressError`.

The first of these places that has a setting wins:

    1. the argument of the call
    2. the option of the address
    3. the environment: LWMQ_ and the key in capitals, such as LWMQ_BUFFER_BYTES=8MiB
    4. the conf file: [stream] or [channel] of $LWMQ_CONF, else of ~/.config/lwmq/lwmq.toml
    5. the default

Sizes: 512, 64KiB, 4MiB, 1GiB (powers of 1024; also 64k, 4m, 1g, as in Spark) or 64KB, 4MB, 1GB (powers of
1000). Durations: 100ms, 5s, 2m, 1h or a number of seconds.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
import os
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

from lwmq_spark._ffi import ffi, lib, raise_status, sized, text_of
from lwmq_spark.errors import AddressError, LwmqError

P = ParamSpec("P")
T = TypeVar("T")

Role = Literal["auto", "server", "client"]
Retain = Literal["until_acked", "all", "none"]
Delivery = Literal["live", "task", "job"]
Trust = Literal["user", "verify"]

# What takes an option of an address.
TRANSPORT: int = lib.LWMQ_TAKEN_BY_TRANSPORT  # each further one of a channel
CHANNEL: int = lib.LWMQ_TAKEN_BY_CHANNEL
LISTENER: int = lib.LWMQ_TAKEN_BY_LISTENER
STREAM: int = lib.LWMQ_TAKEN_BY_STREAM


@dataclass(frozen=True, slots=True)
class Setting:
    """A row of the library's table. `kind`: LWMQ_VALUE_*. `words`: the allowed words, if it takes words."""

    key: str
    kind: int
    words: tuple[str, ...]
    taken_by: int

    def shown(self, number: int, text: str) -> Any:
        """The Python value of `number`, which the library has read from `text`."""
        if self.kind == lib.LWMQ_VALUE_DURATION:
            return _seconds(number)
        if self.kind == lib.LWMQ_VALUE_FLAG:
            return number == 1
        if self.kind == lib.LWMQ_VALUE_WORD:
            return self.words[number]
        return text if self.kind == lib.LWMQ_VALUE_NAME else number


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
    """The keys that `taken_by` (CHANNEL, STREAM, ...) takes."""
    return tuple(key for key, setting in SETTINGS.items() if setting.taken_by & taken_by)


def _places(key: str) -> dict[str, int]:
    """The words of a setting with their numbers, which are the same in lwmq.h."""
    return {word: place for place, word in enumerate(SETTINGS[key].words)}


ROLES = _places("role")
RETAINS = _places("retain")
DELIVERIES = _places("delivery")


def read(key: str, value: object) -> Any:
    """Reads `value`, a text as users write it or a number, as a value of the setting `key`.

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
    """Converts `100ms`, `5s`, `2m`, `1h` or a number to seconds; None and `forever` are no limit."""
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
    """A number or a flag, as users write it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Real) and not isinstance(value, Integral) and math.isfinite(value):
        return f"{float(value):.9f}".rstrip("0").rstrip(".")
    return "forever" if value == math.inf else str(value)


def unknown(what: str, name: str, names: Collection[str]) -> str:
    """A sentence saying that `what` is none of `names`, and which of them `name` may be a slip of."""
    place = nearest(name, names)
    if place is None:
        return f"{what} is unknown; allowed are {', '.join(names)}"
    return f"{what} is unknown: did you mean {place!r}?"


def spelled(call: Callable[P, T]) -> Callable[P, T]:
    """Wraps `call`: its TypeError for an unknown keyword says which argument may be meant."""
    known = [name for name in inspect.signature(call).parameters if name != "self"]

    @functools.wraps(call)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        for name in kwargs.keys() - set(known):
            raise TypeError(unknown(f"argument {name!r}", name, known))
        return call(*args, **kwargs)

    return checked


def nearest(name: str, names: Collection[str]) -> str | None:
    """The one of `names` that `name` may be a slip of."""
    place = lib.lwmq_nearest_word(name.encode("utf-8", "replace"), ", ".join(names).encode())
    return None if place < 0 else list(names)[place]


def whole(what: str, value: object, least: int, most: int) -> int:
    """`value` as an int; errors call it `what`. TypeError: no int. ValueError: not in `least` to `most`."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{what} {value!r}: an int is wanted, not {type(value).__name__}") from None
    if not least <= number <= most:
        raise ValueError(f"{what} {number}: {least} to {most} are possible")
    return number


NAME_BYTES_MAX = 255  # of a reader, a job: kNameBytesMax of base/limits.h


def check_text(what: str, text: str) -> str:
    """`text`, checked so that the library can take it; errors call it `what`. TypeError: no str.

    ValueError: a NUL character, where the library would end the text, or half a surrogate pair.
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
    """As `check_text`, for a name that peers see. ValueError also if it is empty or too long."""
    size = len(check_text(what, name).encode())
    if not 1 <= size <= NAME_BYTES_MAX:
        shown = repr(name if size < 80 else name[:60] + "...")
        raise ValueError(f"{what} {shown} has {size} bytes in UTF-8: 1 to {NAME_BYTES_MAX} are possible")
    return name


@dataclass(frozen=True, slots=True)
class Address:
    """An address apart from its options.

    text: what the library gets. It keeps the name of a stream, and what the address's provider alone knows.

    conf: the tables of the conf file, by their names, as they were when the address was read.
    """

    text: str
    options: Mapping[str, Any] = field(default_factory=dict)
    conf: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def parse_address(address: str, taken_by: int = STREAM) -> Address:
    """Splits an address from its options and reads these.

    taken_by: what takes the options: STREAM, CHANNEL, LISTENER, TRANSPORT, or several of them.
    AddressError names the option, what is allowed and what may be meant. LwmqError: the environment has a
    variable LWMQ_... whose name is a slip, or the conf file has an invalid value.
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
    kept: list[str] = []
    text = ffi.new("char[]", address.encode())  # the options refer to it
    found = sized("lwmq_address_option")
    while (
        status := lib.lwmq_read_address_option(text, taken_by, len(options) + len(kept), found)
    ) == lib.LWMQ_OK:
        key = ffi.string(found.key).decode()
        value = bytes(ffi.buffer(found.text, found.text_bytes)).decode()
        if key == "stream" or key not in SETTINGS:
            kept.append(f"{key}={value}")
        else:
            options[key] = SETTINGS[key].shown(found.value, value)
    if status != lib.LWMQ_E_EMPTY:
        raise_status(status)
    door = address.partition("?")[0]
    path = conf_path()
    conf = {} if path is None else load_conf(path, path.stat().st_mtime_ns)
    return Address(f"{door}?{'&'.join(kept)}" if kept else door, options, conf)


def _check_environment() -> None:
    """LwmqError: a variable that nobody reads has a name close to one that is read."""
    for name in os.environ:
        if name.startswith("LWMQ_") and name not in _VARIABLES and (meant := nearest(name, _VARIABLES)):
            raise LwmqError(f"environment variable {name} is unknown: did you mean {meant}?")


_OTHER_VARIABLES = ("LWMQ_CONF", "LWMQ_MODULE_PATH", "LWMQ_MODULE_TRUST", "LWMQ_LIBRARY_PATH")
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
    """The value of `key` by the order of precedence at the head of this file. An `argument` of None was not
    given. `general` is the key used wherever `key` itself is not set.

    ValueError: the argument is not valid. LwmqError: the environment has an invalid value.
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
    for key in keys:
        variable = f"LWMQ_{key.upper()}"
        if variable in os.environ:
            try:
                return read(key, os.environ[variable])
            except ValueError as exc:
                raise LwmqError(f"environment variable {variable}: {exc}") from None
    table = address.conf.get(section, {})
    for key in keys:
        if key in table:
            return table[key]
    return default


def conf_path() -> Path | None:
    """The conf file in force, or None:

    $LWMQ_CONF (a file, or a folder with lwmq.toml), else ~/.config/lwmq/lwmq.toml.
    """
    named = os.environ.get("LWMQ_CONF")
    if named:
        path = Path(named)
        path = path / "lwmq.toml" if path.is_dir() else path
        if not path.is_file():
            raise LwmqError(f"LWMQ_CONF={named}: there is no such file")
        return path
    users = _users_conf(os.environ.get("XDG_CONFIG_HOME"), os.environ.get("HOME"))
    try:
        return users if users is not None and users.is_file() else None
    except OSError:  # a home that is not ours to look into
        return None


@lru_cache(maxsize=4)
def _users_conf(base: str | None, home: str | None) -> Path | None:
    """Where this user's conf file would lie; None without a home. `home`: what Path.home() goes by."""
    try:
        return (Path(base) if base else Path.home() / ".config") / "lwmq" / "lwmq.toml"
    except RuntimeError:
        return None


@lru_cache(maxsize=4)
def load_conf(path: Path, changed_ns: int) -> dict[str, dict[str, Any]]:
    """The [stream] and [channel] tables of a conf file, read and checked; other tables are left alone.

    `changed_ns` is the file's modification time, so that a changed file is read again.
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
