"""The questions behind the owner's pages, one file for each of them."""
