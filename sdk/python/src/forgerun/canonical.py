"""Canonical JSON (RFC 8785): equal values have equal bytes."""

from __future__ import annotations

import json
import math
from typing import Any


def canonicalize(text: str | bytes) -> str:
    """The canonical form of a JSON text. `ValueError` if it is no JSON, or holds what RFC 8785 has no form for."""
    value = json.loads(text, parse_constant=_refuse)
    return canonical(value)


def canonical(value: Any) -> str:
    """The canonical form of a value."""
    if isinstance(value, dict):
        # By UTF-16 units, which is not the order of code points beyond the first plane.
        members = sorted(value.items(), key=lambda member: member[0].encode("utf-16-be"))
        return "{" + ",".join(f"{_text(name)}:{canonical(member)}" for name, member in members) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return _number(float(value))


def _text(value: str) -> str:
    value.encode("utf-8")  # Half of a surrogate pair is refused here.
    return json.dumps(value, ensure_ascii=False)


def _number(value: float) -> str:
    """As ECMAScript writes it."""
    if not math.isfinite(value):
        raise ValueError("JSON has no infinite numbers")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = f"{abs(value)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction.rstrip("0")).lstrip("0")
    # The value is 0.DIGITS times ten to the power of `point`.
    point = len(whole) + int(exponent or 0)
    if whole == "0":
        point -= len(fraction) - len(fraction.lstrip("0")) + 1
    digits = digits.rstrip("0")
    if 0 < point <= 21:
        return sign + (digits.ljust(point, "0") if len(digits) <= point else f"{digits[:point]}.{digits[point:]}")
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    first, rest = digits[0], digits[1:]
    return f"{sign}{first}{'.' + rest if rest else ''}e{point - 1:+d}"


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
