"""What a learned controller sees: features of pools that do not depend on how large a service is."""
