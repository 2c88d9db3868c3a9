"""The fields of each kind, in tables of text, and the OpenAPI documents made of them."""
