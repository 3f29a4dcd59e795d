"""Applications in the format of P2CODE's scheduler: validation, bundles, placement and status. Pure."""
