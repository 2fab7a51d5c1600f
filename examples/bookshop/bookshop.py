"""A tool of one's own: a function with type hints and a docstring. The model is shown both."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Order:
    """What the model is told about an order."""

    title: str
    status: str
    city: str


ORDERS = {
    4711: Order(title="The Left Hand of Darkness", status="shipped", city="Tokyo"),
    4712: Order(title="Momo", status="waiting for the publisher", city="Lisbon"),
}


async def find_order(number: int) -> Order:
    """Find an order by its number.

    Args:
        number: The order's number, as printed on the receipt.
    """
    if number not in ORDERS:
        raise LookupError(f"there is no order {number}")
    return ORDERS[number]
