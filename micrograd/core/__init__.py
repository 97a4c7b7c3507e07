"""What Value stands on: levels, errors, displays, and how derivatives are taken."""
