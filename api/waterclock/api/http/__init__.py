"""REST: routes, requests, answers and the documents about them."""
