"""What the product talks about: names, quantities, API objects, decisions. No I/O."""
