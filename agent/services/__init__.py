"""Controllers of Services: copies, EndpointSlices, Ingresses, links between clusters, gateways."""
