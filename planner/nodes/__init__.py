"""Plan nodes, logical and physical, and facts about them."""
