"""The web, as far as agents may see it: which addresses, how a page is fetched, and what is made of it."""
