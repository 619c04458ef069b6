"""The products, read from data/products.json."""

import json
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).parent.parent / "data" / "products.json"


@dataclass(frozen=True)
class Product:
    sku: str
    name: str
    cents: int
    stock: int


def load(path: Path = FILE) -> dict[str, Product]:
    """Products by their stock-keeping unit."""
    return {row["sku"]: Product(**row) for row in json.loads(path.read_text("utf-8"))}
