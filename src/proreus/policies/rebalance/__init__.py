"""Who decides which virtual machine or pod goes where: rules, searches, an exact solver, learned scorers."""
