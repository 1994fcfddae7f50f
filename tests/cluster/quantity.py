"""Kubernetes quantities: 500m, 8Gi, 2."""

from __future__ import annotations

import math
from fractions import Fraction

SUFFIXES = {
    "": 1, "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
}


def quantity(text: str) -> Fraction:
    number = str(text).rstrip("numkMGTPEi")
    return Fraction(number) * SUFFIXES[str(text)[len(number):]]


def divided(amount: str, divisor: str) -> str:
    """As a resourceFieldRef gives it: rounded up to whole divisors."""
    return str(math.ceil(quantity(amount) / (quantity(divisor) or 1)))
