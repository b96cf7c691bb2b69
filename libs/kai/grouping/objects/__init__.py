"""What users and controllers wrote, read with care."""
