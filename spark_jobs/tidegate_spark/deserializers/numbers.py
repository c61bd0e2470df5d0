"""Numbers as Kafka's serializers write them: big-endian, of exactly so many bytes, floats by their IEEE 754 bits.

Every value is computed exactly with Spark's own arithmetic: powers of two and their products with a significand
are exact in doubles. All NaNs are one, as Spark holds them.
"""

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)

from tidegate_spark.deserializers.step import Step, first_reason

_LENGTHS = {"short": 2, "integer": 4, "long": 8, "float": 4, "double": 8}
NAMES = frozenset(_LENGTHS)


@dataclass(frozen=True)
class _Ieee:
    """The bits of an IEEE 754 format."""

    exponent: int
    significand: int

    @property
    def bias(self) -> int:
        """What is subtracted so that significand times two to the exponent is the number."""
        return (1 << (self.exponent - 1)) - 1 + self.significand


_FORMATS = {"float": _Ieee(8, 23), "double": _Ieee(11, 52)}


def number(raw: Column, name: str) -> Step:
    """A short, integer, long, float or double; bytes of another length are a failure, as they are in Java."""
    length = _LENGTHS[name]
    size = F.octet_length(raw)

    def value(_: Column, bits: Column) -> Column:
        ieee = _FORMATS.get(name)
        return bits.cast(name) if ieee is None else _floating(bits, ieee).cast(name)

    def reason(raw: Column, _: Column) -> Column:
        size = F.octet_length(raw)
        told = F.format_string(f"it has %d bytes, where {name} has {length}", size)
        return first_reason((size != length, told))

    return Step(F.when(size == length, _signed(raw, length)), value, reason)


def _signed(raw: Column, length: int) -> Column:
    """The bytes as a two's complement, a bigint: `conv` to base -10 reads 64 bits so, and shifts do for fewer."""
    bits = F.conv(F.hex(raw), 16, -10).cast("bigint")
    unused = 64 - 8 * length
    return bits if not unused else F.shiftright(F.shiftleft(bits, unused), unused)


def _floating(bits: Column, ieee: _Ieee) -> Column:
    """The double whose bits, or whose float's bits, these are."""
    greatest = 2**ieee.exponent - 1
    exponent = F.shiftright(bits, ieee.significand).bitwiseAND(F.lit(greatest))
    fraction = bits.bitwiseAND(F.lit(2**ieee.significand - 1))
    implied = F.when(exponent == 0, F.lit(0)).otherwise(F.lit(2**ieee.significand))
    power = F.greatest(exponent, F.lit(1)) - F.lit(ieee.bias)
    finite = (fraction + implied).cast("double") * F.pow(F.lit(2.0), power.cast("double"))
    special = F.when(fraction == 0, F.lit(float("inf"))).otherwise(F.lit(float("nan")))
    magnitude = F.when(exponent == greatest, special).otherwise(finite)
    return F.when(bits < 0, -magnitude).otherwise(magnitude)
