"""Who decides: the policy interface, the rules, and the catalogue that names them."""
