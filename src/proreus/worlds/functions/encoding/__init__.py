"""A decision as numbers: rows for networks, the document's observation for environments."""
