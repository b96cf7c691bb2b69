"""What must hold, each rule a pure function of what was seen. None knows how the product does it."""
