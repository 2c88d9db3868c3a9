"""Who decides where a virtual machine goes: rules and learned scorers over the columns of `servers`."""
