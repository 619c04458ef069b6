"""What a customer is about to buy, and what it costs."""

from dataclasses import dataclass, field

from shop.products import Product

CRATE = 6
CRATE_DISCOUNT_PERCENT = 10


@dataclass
class Basket:
    """Pieces by product."""

    pieces: dict[Product, int] = field(default_factory=dict)

    def put(self, product: Product, count: int = 1) -> None:
        wanted = self.pieces.get(product, 0) + count
        if wanted > product.stock:
            raise ValueError(f"only {product.stock} of {product.name} are left")
        self.pieces[product] = wanted

    def cents(self) -> int:
        """The whole price in cents, crates discounted."""
        return sum(_line(product, count) for product, count in self.pieces.items())


def _line(product: Product, count: int) -> int:
    full = product.cents * count
    if count < CRATE:
        return full
    return full * (100 - CRATE_DISCOUNT_PERCENT) // 100
