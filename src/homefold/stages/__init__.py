"""The road: features, manifold, classifier and styles as stages that are trained once, and the answers."""
