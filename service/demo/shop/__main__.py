"""Serve the price list."""

from html import escape
from http.server import BaseHTTPRequestHandler, HTTPServer

from shop.products import load


class PriceList(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        rows = "".join(f"<li>{escape(p.name)}: {p.cents / 100:.2f} €</li>" for p in load().values())
        page = f"<!doctype html><title>Orchard</title><h1>From our orchard</h1><ul>{rows}</ul>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(page.encode())


HTTPServer(("127.0.0.1", 8000), PriceList).serve_forever()
