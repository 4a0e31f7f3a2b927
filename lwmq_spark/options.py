"""Addresses with options, and where a setting comes from.

    ipc://flights?buffer_bytes=4MiB&buffers=16&timeout=5s

What stands before `?` belongs to the provider of the scheme, which alone parses it. What follows is ours:
`key=value` pairs. Writers and readers of streams take the keys that concern them; a channel takes those of
`CHANNEL_KEYS`, and any other is an `AddressError`, as is a key that nobody knows.

A setting is looked for in this order, the first that has it wins:

    1. the argument of the call
    2. the option of the address
    3. the environment: LWMQ_ and the key in capitals, such as LWMQ_BUFFER_BYTES=8MiB
    4. the conf file: [stream] or [channel] of $LWMQ_CONF, else of ~/.config/lwmq/lwmq.toml
    5. the default

Sizes are written 512, 64KiB, 4MiB, 1GiB (powers of 1024; also 64k, 4m, 1g, as Spark has them) or 64KB, 4MB,
1GB (powers of 1000); durations 100ms, 5s, 2m, 1h or a number of seconds. The same words mean the same in
Spark's options and in the address options of C.
"""

from __future__ import annotations

import operator
import os
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal

from lwmq_spark.errors import AddressError, LwmqError

Role = Literal["auto", "server", "client"]
Retain = Literal["until_acked", "all", "none"]
Delivery = Literal["live", "task", "job"]
Trust = Literal["user", "verify"]

# The numbers are those of lwmq.h (LWMQ_ROLE_*, LWMQ_RETAIN_*, LWMQ_DELIVERY_*).
ROLES: dict[str, int] = {"auto": 0, "server": 1, "client": 2}
RETAINS: dict[str, int] = {"until_acked": 0, "all": 1, "none": 2}
DELIVERIES: dict[str, int] = {"live": 0, "task": 1, "job": 2}
TRUSTS = {"user": 0, "verify": 1}

_SIZE_UNITS = {
    "": 1,
    "b": 1,
    "k": 1 << 10,  # as Spark writes them
    "m": 1 << 20,
    "g": 1 << 30,
    "t": 1 << 40,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
}
_TIME_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def parse_size(value: object) -> int:
    """Bytes of `4MiB`, `64KB`, `512` or an int. ValueError says what is allowed."""
    if isinstance(value, bool) or not isinstance(value, (Integral, str)):
        raise ValueError(f"{value!r} is not a size: an int of bytes, or a text such as '4MiB'")
    if isinstance(value, Integral):
        number, unit = str(int(value)), ""
        if int(value) < 0:
            raise ValueError(f"{value} is not a size: it is negative")
    else:
        match = _NUMBER.fullmatch(value)
        if match is None or match[2].lower() not in _SIZE_UNITS:
            raise ValueError(f"{value!r} is not a size: write 512, 64KiB, 4MiB, 1GiB, 64KB, 4MB or 1GB")
        number, unit = match[1], match[2].lower()
    scaled = float(number) * _SIZE_UNITS[unit] if "." in number else int(number) * _SIZE_UNITS[unit]
    if scaled != int(scaled):
        raise ValueError(f"{value!r} is not a whole number of bytes")
    return int(scaled)


def parse_duration(value: object) -> float | None:
    """Seconds of `100ms`, `5s`, `2m`, `1h` or a number; None and `forever` are no limit."""
    if value is None or (isinstance(value, str) and value.lower() == "forever"):
        return None
    if isinstance(value, Real) and not isinstance(value, bool):
        seconds = float(value)
        if not seconds >= 0:
            why = "negative" if seconds < 0 else "no number"
            raise ValueError(f"{value!r} is not a duration: it is {why}")
        return None if seconds == float("inf") else seconds
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2].lower() not in _TIME_UNITS:
        raise ValueError(
            f"{value!r} is not a duration: write 100ms, 5s, 2m, 1h, a number of seconds or 'forever'"
        )
    return float(match[1]) * _TIME_UNITS[match[2].lower()]


def parse_count(value: object) -> int:
    """A whole number from 0."""
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0:
        return int(value)
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    raise ValueError(f"{value!r} is not a count: a whole number from 0")


def whole(what: str, value: object, least: int, most: int) -> int:
    """`value`, which `what` names in errors. TypeError: no int; ValueError: not of `least` to `most`."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{what} {value!r}: an int is wanted, not {type(value).__name__}") from None
    if not least <= number <= most:
        raise ValueError(f"{what} {number}: {least} to {most} are possible")
    return number


def parse_flag(value: object) -> bool:
    """true or false."""
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text in ("true", "1", "yes"):
        return True
    if text in ("false", "0", "no"):
        return False
    raise ValueError(f"{value!r} is neither true nor false")


NAME_BYTES_MAX = 255  # of a reader, a job: kNameBytesMax of base/limits.h


def check_text(what: str, text: str) -> str:
    """`text`, which `what` names in errors, as the library can be told it. TypeError: no str.

    ValueError: a NUL character, where the library would end it, or half a surrogate pair.
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
    """The same for a name that peers hear. ValueError: it is empty or too long."""
    size = len(check_text(what, name).encode())
    if not 1 <= size <= NAME_BYTES_MAX:
        shown = repr(name if size < 80 else name[:60] + "...")
        raise ValueError(f"{what} {shown} has {size} bytes in UTF-8: 1 to {NAME_BYTES_MAX} are possible")
    return name


def parse_name(value: object) -> str:
    """Of a reader."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a name")
    return check_name("reader", value)


def _one_of(names: Mapping[str, int]) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if isinstance(value, str) and value.lower() in names:
            return value.lower()
        raise ValueError(f"{value!r} is none of {', '.join(names)}")

    return parse


SETTINGS: dict[str, Callable[[object], Any]] = {
    "buffer_bytes": parse_size,
    "buffers": parse_count,
    "buffers_send": parse_count,
    "buffers_receive": parse_count,
    "window_bytes": parse_size,
    "staging_bytes": parse_size,
    "timeout": parse_duration,
    "linger": parse_duration,
    "stall": parse_duration,
    "expel_after": parse_duration,
    "retry": parse_duration,
    "role": _one_of(ROLES),
    "retain": _one_of(RETAINS),
    "delivery": _one_of(DELIVERIES),
    "partitions": parse_count,
    "readers": parse_count,
    "writers": parse_count,
    "credit": parse_count,
    "follow": parse_flag,
    "raw": parse_flag,
    "secure_erase": parse_flag,
    "home_thread": parse_flag,
    "trust": _one_of(TRUSTS),
    "name": parse_name,
}


# Of a channel as a whole, and those that each of its transports may have for itself.
TRANSPORT_KEYS = ("buffer_bytes", "buffers", "buffers_send", "buffers_receive", "retry")
CHANNEL_KEYS = (
    *TRANSPORT_KEYS, "role", "linger", "raw", "secure_erase", "home_thread",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Address:
    """An address apart from its options. `text` is what the provider gets."""

    text: str
    options: Mapping[str, Any] = field(default_factory=dict)


def parse_address(address: str, keys: Collection[str] = SETTINGS, of: str = "an address") -> Address:
    """Split an address from its options and read those. AddressError names the key and what is allowed.

    keys: those that `of` takes.
    """
    if not isinstance(address, str):
        hint = ": did you mean .decode()?" if isinstance(address, bytes) else ""
        raise TypeError(f"an address is a str such as 'ipc://flights', not {type(address).__name__}{hint}")
    try:
        check_text("address", address)
    except ValueError as exc:
        raise AddressError(str(exc)) from None
    text, mark, query = address.partition("?")
    scheme, colon, _ = text.partition("://")
    if not colon or not scheme:
        hint = f": did you mean 'ipc://{text}'?" if text and ":" not in text else ""
        raise AddressError(f"address {address!r} has no scheme{hint}")
    if mark and not query:
        raise AddressError(f"address {address!r} ends in '?' and names no option")
    options: dict[str, Any] = {}
    for pair in query.split("&") if query else ():
        key, equals, value = pair.partition("=")
        if key not in SETTINGS:
            raise AddressError(f"option {key!r} of {address!r} is unknown; allowed are {', '.join(keys)}")
        if not equals:
            raise AddressError(f"option {key!r} of {address!r} has no value: write {key}=...")
        if key in options:
            raise AddressError(f"option {key!r} of {address!r} is given twice")
        try:
            options[key] = SETTINGS[key](value)
        except ValueError as exc:
            raise AddressError(f"option {key!r} of {address!r}: {exc}") from None
        if key not in keys:
            raise AddressError(
                f"option {key!r} of {address!r} is none of {of}; allowed are {', '.join(keys)}"
            )
    return Address(text, options)


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
    given. `general` is the key that stands for it wherever it is not said itself.

    ValueError: the argument is none. LwmqError: what the environment or the conf file says is none.
    """
    parse = SETTINGS[key]
    if argument is not None:
        try:
            return parse(argument)
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
                return parse(os.environ[variable])
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
    """The conf file in force:

    $LWMQ_CONF (a file, or a folder with lwmq.toml), else ~/.config/lwmq/lwmq.toml.
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
    """The [stream] and [channel] tables of a conf file, read and checked; other tables belong to others.

    `changed_ns` is the file's time, so that a changed file is read again.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise LwmqError(f"{path}: {exc}") from None
    checked: dict[str, dict[str, Any]] = {}
    for section in ("stream", "channel"):
        checked[section] = {}
        for key, value in tables.get(section, {}).items():
            if key not in SETTINGS:
                raise LwmqError(f"{path}: [{section}] {key} is unknown; allowed are {', '.join(SETTINGS)}")
            try:
                checked[section][key] = SETTINGS[key](value)
            except ValueError as exc:
                raise LwmqError(f"{path}: [{section}] {key}: {exc}") from None
    return checked
