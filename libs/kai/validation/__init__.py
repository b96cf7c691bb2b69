"""What an object must satisfy beyond its schema: pure rules, shared by the webhooks that enforce them."""
