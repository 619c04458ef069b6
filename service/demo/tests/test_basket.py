import unittest

from shop.basket import Basket
from shop.products import Product

JAM = Product("jam-quince", "Quince jam, 250 g", 480, 95)


class BasketTest(unittest.TestCase):
    def test_five_pieces_cost_the_full_price(self) -> None:
        basket = Basket()
        basket.put(JAM, 5)
        self.assertEqual(basket.cents(), 2400)

    def test_a_crate_is_ten_percent_cheaper(self) -> None:
        basket = Basket()
        basket.put(JAM, 6)
        self.assertEqual(basket.cents(), 2592)

    def test_more_than_the_stock_cannot_be_bought(self) -> None:
        with self.assertRaises(ValueError):
            Basket().put(JAM, 96)
