"""Speed claims of the world of virtual machines, beside a plain peer."""
