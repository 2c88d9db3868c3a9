"""Laws that hold in every world that is registered, one outside the package included."""
